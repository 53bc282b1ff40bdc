"""What models say around an instruction, in the languages that they often answer in.

Each list is a regular expression of alternatives; nothing in it can match without end.
"""

from __future__ import annotations

PROMPT = (
    r"(?:system |system-)?(?:prompts?|instructions?|instruktion\w*|anweisung\w*|"
    r"arbeitsanweisung\w*|consignes?|instrucci(?:ó|o)n(?:es)?|indicaci(?:ó|o)n(?:es)?|"
    r"istruzion[ei]|instruç(?:ão|ões)|instructies?|instrukcj\w+|polece\w+|инструкци\w+|"
    r"промпт\w*|указани\w+|talimat\w*|yönerge\w*|istem|निर्देश|प्रॉम्प्ट|التعليمات|تعليمات|指令|"
    r"提示词|提示語|提示|说明|說明|指示文?|プロンプト|지시문?|지침|프롬프트)"
)
"""A word for the instruction itself."""

DRAFT = (
    r"(?:versions?|candidates?|variants?|rewrites?|(?:re)?wordings?|revisions?|paraphrases?|"
    r"drafts?|alternatives?|proposals?|offspring|options?|fassung|vorschlag|propositions?|"
    r"propuestas?|versi(?:ó|o)n(?:es)?|versione|proposta|vers(?:ão|ões)|versies?|voorstel|"
    r"wersj\w+|propozycj\w+|верси\w+|вариант\w*|предложени\w+|sürüm\w*|öneri\w*|النسخة|نسخة|"
    r"الإصدار|版本|方案|バージョン|改善案|버전|제안)"
)
"""A word for one of several texts."""

NEW = (
    r"(?:new|improved?|revised|updated|rewritten|refined|better|optimi[sz]ed|final|proposed|"
    r"enhanced|alternative|paraphrased|mutated|modified|first|second|third|next|neue?[rsn]?|"
    r"verbessert\w*|überarbeitet\w*|optimiert\w*|nouve(?:au|lle)|amélioré\w*|révisé\w*|"
    r"optimisé\w*|nuev[oa]|mejorad[oa]|revisad[oa]|optimizad[oa]|nuov[oa]|migliorat[oa]|"
    r"rivist[oa]|ottimizzat[oa]|nov[oa]|melhorad[oa]|otimizad[oa]|nieuwe?|verbeterde?|"
    r"herziene?|now[aey]|poprawion\w+|ulepszon\w+|нов\w{2}|улучшенн\w+|исправленн\w+|"
    r"обновл[её]нн\w+|yeni|geliştirilmiş|iyileştirilmiş|güncellenmiş|नया|बेहतर|محسّنة?|"
    r"المحسّنة?|المحسنة?|معدّلة?|الجديدة?|改进(?:后)?的?|修改(?:后)?的?|优化(?:后)?的?|改良(?:後)?的?|"
    r"更新(?:后)?的?|新的?|改善(?:した|後の)?|修正(?:した|後の)?|新しい|개선(?:된|한)?|수정(?:된|한)?|새로운)"
)
"""What is said of a text that replaces another."""

ACKNOWLEDGED = (
    r"(?:sure(?: thing)?(?!-)|certainly|of course|absolutely|okay|ok|great(?: question)?|got it|"
    r"no problem|understood|alright|definitely|happy to help|glad to help|thank you|thanks|"
    r"gern(?:e)?|natürlich|klar|selbstverständlich|sicher|verstanden|alles klar|bien sûr|"
    r"d'accord|certainement|volontiers|entendu|claro(?: que sí)?|por supuesto|desde luego|"
    r"entendido|con gusto|certo|certamente|volentieri|d'accordo|com certeza|claro que sim|"
    r"natuurlijk|zeker|uiteraard|oczywiście|jasne|pewnie|конечно|хорошо|разумеется|понял|"
    r"tabii(?: ki)?|elbette|tamam|ज़रूर|बिल्कुल|ठीक है|بالتأكيد|بالطبع|حسن[اًا]+|好的|当然(?:可以)?|"
    r"當然(?:可以)?|没问题|沒問題|可以的|明白了?|もちろん(?:です)?|承知(?:いた)?しました|わかりました|はい|물론(?:입니다|이죠)?|네|알겠습니다)"
)
"""How an answer begins that talks to the one who asked."""

PRESENTED = (
    r"(?:\bhere(?:'s| is| are| comes| you go| you have)\b|\bbelow (?:is|are|you will find)\b|"
    r"\bthis is\b|\bthese are\b|\bthe following (?:is|are)\b|\bbelow\b[^.!?\n]{0,20}\bfind\b|"
    r"\b(?:hier (?:ist|sind|kommt|die|der)|nachfolgend|im folgenden|anbei)\b|\b(?:voici|"
    r"ci-dessous)\b|\b(?:aquí (?:tienes|está|va)|a continuación|esta es|este es)\b|\b(?:ecco|"
    r"di seguito)\b|\b(?:aqui (?:está|vai)|a seguir)\b|\b(?:hier is|hieronder)\b|\b(?:oto|"
    r"poniżej)\b|\b(?:вот|ниже)\b|\b(?:işte|aşağıda)\b|यहाँ|إليك|فيما يلي|以下(?:是|为|為|が|は|に)|"
    r"这是|這是|こちら|다음은|여기)"
)
"""How a text is handed over."""

PROPOSED = (
    r"(?:\bi(?:'ve| have)? (?:rewrote|rewritten|revised|improved|refined|created|wrote|"
    r"written|updated|modified|made|added|drafted|came up|come up|propose|(?:would |"
    r"'d )?suggest|recommend)\b|\bi(?:'d| would) (?:suggest|propose|recommend)\b|"
    r"\b(?:schlage ich|ich schlage|ich empfehle|habe ich|ich habe)\b|\bje (?:vous |"
    r"te )?(?:propose|suggère|recommande)\b|\bj'ai (?:réécrit|amélioré|révisé|modifié)\b|"
    r"\b(?:(?:yo )?(?:te )?(?:propongo|sugiero|recomiendo)|he (?:mejorado|reescrito|"
    r"revisado))\b|\b(?:suggerisco|consiglio|ho (?:migliorato|riscritto))\b|\b(?:proponho|"
    r"sugiro|recomendo)\b|\b(?:ik stel|ik heb)\b|\b(?:proponuję|sugeruję)\b|\b(?:предлагаю|"
    r"рекомендую|я (?:улучшил|переписал))|\b(?:öneriyorum|öneririm)\b|أقترح|我(?:建议|建議|推荐|改进了|"
    r"修改了|重写了)|提案(?:します|いたします)|제안합니다|제안드립니다)"
)
"""How a writer speaks of what it did."""

CLOSING = (
    r"(?:\blet me know(?: (?:if|whether|how|what)\b|[.!])|\bhope (?:this|that|it) helps\b|"
    r"\bfeel free to (?:ask|reach|adjust|modify|change|tweak|edit|adapt|let|use (?:this|it))\b|"
    r"\bwould you like (?:me|the (?:instruction|prompt)|it) to\b|\bdo you want me to\b|\bkey (?:changes|"
    r"improvements)\b|\bchanges made\b|\blass(?:en sie| es)? mich (?:bitte )?wissen\b|"
    r"\bich hoffe,? (?:das|dies)\b|\bn'hésite[zs]? pas à me\b|\bdites-moi si\b|"
    r"\bfaites-moi savoir\b|\bj'espère que\b|\b(?:házmelo|hazme|háganme) saber\b|\bavísame\b|"
    r"\bespero que (?:esto|isso|te|le|lhe|sea|seja)\b|\bno dudes en\b|\bfammi sapere\b|"
    r"\bspero che\b|\b(?:avise-me|me avise|diga-me se|me diga se)\b|"
    r"\blaat (?:het )?me weten\b|\bhopelijk helpt\b|\bdaj(?:cie)? (?:mi )?znać\b|"
    r"\bmam nadzieję\b|\bдай(?:те)? (?:мне )?знать\b|\bнадеюсь,? (?:это|что)\b|\bbana bildir|"
    r"\bumarım\b|آمل أن|أخبرني إذا|希望(?:这|這|对|對|能)|请(?:告诉我|让我知道)|如(?:果您)?需(?:要)?(?:进一步|修改|调整)|"
    r"お役に立て|ご要望|いかがでしょうか|도움이 되|알려 ?주세요)"
)
"""How an answer ends that talks to the one who asked."""

DECLINED = (
    r"(?:\bi(?:'?m| am)(?: (?:so|very|truly|really))? (?:sorry|afraid|unable|not able|"
    r"not allowed)\b|\bi (?:apologi[sz]e|regret|(?:must|have to)(?: \w+)? (?:decline|refuse))\b"
    r"|\bi (?:won't|will not|can't|cant|cannot|can not|couldn't)\b(?! (?:\w+ )?(?:see|read|hear|"
    r"wait|stress|"
    r"emphasi\w+|overstate|repeat|grade|score|tell|know|check|look|count|parse|accept (?:answers|"
    r"replies|more)"
    r")\b)|\bnot something i can\b|\brequest (?:cannot|can't|could not|can not) be\b|\bcontent "
    r"policy violation|"
    r"\bmy (?:guidelines|polic(?:y|ies)|programming) (?:do|does|prevents?|forbids?|prohibits?)\b|"
    r"\berror(?: code)? ?\d{3}\b|\berror: (?:rate|time|too|internal|request|context|connection|"
    r"invalid|model)|"
    r"\bich darf (?:diese|das|dir|ihnen)\b|\bje regrette\b|\bi (?:don't|do not) (?:feel "
    r"comfortable|have (?:enough|access|"
    r"the))\b|\bi need more (?:info|context)|\bcould you (?:please )?(?:provide|share|paste|"
    r"send|clarify)\b|\bplease (?:provide|share|paste|send)\b[^.!?\n]{0,40}\b(?:instructions?|"
    r"prompts?|"
    r"examples?|episodes?|trajector\w+|context|details|information)\b|\bas an? (?:ai|artificial "
    r"intelligence|(?:large )?language model)\b[^.!?\n]{0,40}\bi\b|\b(?:this|it|that|which|"
    r"request) (?:is |goes |would be )?(?:against|violates?) (?:my|our|"
    r"the) (?:guidelines|polic(?:y|ies)|programming)\b|\bregrettably\b|\bunfortunately,? (?:i|we|"
    r"this)\b|"
    r"\b(?:(?:my )?apologies|sorry)\s?[,.!:-]|\bunable to (?:comply|assist|"
    r"help|fulfil|generate|provide)|\b(?:request|content|prompt|response) (?:was|has been|"
    r"is) (?:refused|blocked|flagged)|\bes tut mir(?: sehr)? leid\b|\b(?:ich kann|"
    r"kann ich)\b[^.!?\n]{0,30}\b(?:nicht|kein\w*)\b|\bich bin nicht in der lage\b|\bals ki\b|"
    r"\bje suis (?:vraiment )?désolée?\b|\bje (?:ne peux pas|ne suis pas en mesure)\b|"
    r"\bmalheureusement, je\b|\blo siento\b|\blamento,|"
    r"\b(?:lo siento,? )?(?:pero )?no puedo (?:ayudar|cumplir|hacer|proporcionar|realizar|"
    r"responder|continuar|asistir)|\bcomo (?:modelo|ia|una ia)\b|\bmi dispiace\b|"
    r"\bnon posso (?:aiutar|soddisf|fornir|rispond|complet|esegu|far)|\bdesculpe\b|"
    r"\bsinto muito\b|\b(?:eu )?não posso (?:ajudar|atender|cumprir|fornecer|fazer|responder|"
    r"continuar)|\bhet spijt me\b|\bik kan\b[^.!?\n]{0,30}\bniet\b|\bprzykro mi\b|"
    r"\bprzepraszam\b|\bnie mogę\b|\b(?:извините|простите|к сожалению,? я)\b|\bя не (?:могу|"
    r"смогу)\b|\büzgünüm\b|\byardımcı olam\w+|\byapamam\b|मुझे खेद|क्षमा करें|"
    r"मैं .{0,30}नहीं कर सकता|عذر[اًا]+|أعتذر|لا أستطيع|لا يمكنني|抱歉|对不起|對不起|很遗憾|很遺憾|我(?:不能|"
    r"无法|無法)|作为(?:一个)?(?:人工智能|AI)|申し訳|お(?:応え|答え|手伝い)(?:する(?:こと(?:は|が))?)?でき(?:ません|かね)|죄송|"
    r"도와드릴 수 없|미안하지만)"
)
"""How a model declines."""
