"""What a writer says about its own work, before the instruction or behind it.

An instruction speaks to its reader; "my suggestion", "I kept the tags" or "this should help the
model" speak of the instruction, to whoever asked for it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from evoprompt.firewall.phrases import DRAFT, NEW, PROMPT
from evoprompt.firewall.text import any_of

_TEXT = rf"(?:{PROMPT}|{DRAFT}|text|template|one|system message|phrasing|formulation)"
_BETTER = (
    r"(?:clearer|better|shorter|stronger|tighter|simpler|cleaner|sharper|improved?|revised|updated|"
    r"reworked|polished|rewritten|refined|more (?:precise|concise|explicit|robust|direct|specific))"
)
_WORK = (
    r"(?:suggestion|proposal|proposition|attempt|take|rewrite|rewording|revision|wording|version|"
    r"draft|prompt|instruction|phrasing|candidate|variant)"
)
_FAILED = (
    r"(?:fail(?:ed|ing|ures?)|failure \w+|feedback|episodes?|trajector\w+|transcripts?|rollouts?|"
    r"mistakes of the model|model's)"
)
_EDIT = (
    r"(?:rewrite|rephrase|reword|revise|improve|refine|tighten|simplify|shorten|clarify|"
    r"restructure|"
    r"make (?:it|this|the) \w*|suggest|propose|phrase|word it|go with|analy[sz]e|look at the|"
    r"try (?:to )?(?:again|a |an |writ|improv|re)|try:|adjust|fix)"
)
_INTRODUCTION = any_of(
    r"here (?:it is|you go|goes|we go)\b",
    r"here(?:'s| is| are) (?:my|what i|one way to|how i)\b",
    rf"here(?:'s| is| are) (?:a|an|one|some|something)\b[^.!?\n]{{0,40}}\b(?:{_BETTER}|"
    rf"works? better)\b",
    rf"(?:and )?(?:this is )?my (?:\w+ ){{0,2}}{_WORK}\b",
    rf"(?:a|an|one|another)(?: \w+){{1,2}} {_WORK}(?: (?:would|could|might|may|"
    rf"can) be\b[^.:\n]{{0,20}})?\s*:",
    rf"(?:a|one) {_BETTER} way to (?:say|phrase|put|write|word) (?:this|it)\b",
    r"(?:suggest(?:ed|ions?)|propos(?:ed|als?)|rewrit(?:e|ten)|reword(?:ed|ing)|rephras(?:ed|ing)|"
    r"improve(?:d|ment)|revised|mutat(?:ion|ed)|offspring|child|crossover|attempt "
    r"\d+)\b[^.!?:\n]{0,30}:",
    rf"(?:i(?:'d| would|'ll| will|'m going to| am going to| can| could)|let(?:'s| me)|we (?:can|"
    rf"could))"
    rf"\b[^.!?:\n]{{0,30}}?\b{_EDIT}",
    r"i (?:suggest|propose|recommend) (?:the following|this|using|replacing|changing|that the)\b",
    r"i(?:'d| would) (?:write|put it|say)\b[^.!?\n]{0,30}:",
    r"(?:first|okay|ok|right|so|well|now),?(?: so)? let me\b",
    rf"(?:you (?:could|might|can|may)(?: want to)? )?(?:try|use|consider)(?: using)?(?: (?:this|"
    rf"the following|"
    rf"something like(?: this)?))?(?: {NEW}| {_BETTER})?(?: {_TEXT}| instead)+\s*[:?]",
    r"(?:try|consider|use) (?:this|the following)\s*:\s*$",
    r"(?:how|what) about(?: (?:this|the following|something like(?: this)?)(?: \w+)?)?\s*[:?]",
    r"something like (?:this|the following)\s*:",
    rf"(?:replace|change) (?:it|this|the {_TEXT}) (?:with|to|by)\b[^.!?\n]{{0,20}}:",
    r"(?:as (?:you (?:requested|asked)|requested|discussed)|(?:as )?per (?:your|"
    r"the) request)\s*[,.:]",
    r"as (?:you )?(?:requested|asked), (?:here|this)\b|(?:based on|given|following|in response "
    r"to) your\b"
    r"[^.!?\n]{0,20}\b(?:feedback|request|examples?)\b",
    rf"(?:based on|given|considering|after \w+ing(?: at)?|looking at|from|judging by|to (?:address|"
    rf"fix|avoid))"
    rf" (?:all )?(?:the|these|those|your)(?: \w+){{0,2}}? {_FAILED}\b",
    r"after (?:looking at|reviewing|reading|analy[sz]ing) the examples,? (?:i|the following|it "
    r"seems)\b",
    r"(?:thank(?:s| you)\b|thanks for\b|great[!.,]|perfect[!.,]|excellent[!.,]|wonderful[!.,]|"
    r"awesome[!.,]|"
    r"good (?:question|idea|point|catch)\b|sounds good\b|will do\b|no worries\b|noted[!.,]|"
    r"done[!.:]|"
    r"h+m+[,. ]|yes[,!]|yep\b|yeah\b|right,|okay,? so\b|so,? here\b|happy to\b|glad to\b)",
    rf"(?:the |an? )?(?:{NEW}|{_BETTER}) (?:{_TEXT}) (?:is|reads|would|might|could|should|may|now|"
    rf"follows)\b",
    r"(?:combin|merg|blend|mix|cross)(?:ing|ed|es)? (?:of )?(?:both|the two|two)"
    r" (?:parents?|prompts?|instructions?|candidates?|versions?)\b|combining both\b",
    r"(?:hier(?: ist| kommt)? mein|mein(?:e)? (?:vorschlag|fassung|version)|wie gewünscht|wie "
    r"erbeten)\b",
    r"(?:voici (?:ma|mon|ce que)|ma (?:proposition|suggestion|version)|comme demandé)\b",
    r"(?:aquí va|mi (?:propuesta|sugerencia|versión)|como (?:pediste|pidió|se pidió|solicit\w+))\b",
    r"(?:ecco (?:la mia|il mio)|la mia (?:proposta|versione)|il mio suggerimento|come richiesto)\b",
    r"(?:(?:aqui (?:está|vai) )?(?:a )?minha (?:proposta|sugestão|versão)|como (?:solicitado|"
    r"pedido))\b",
    r"(?:hier is mijn|mijn (?:voorstel|versie)|zoals gevraagd|moja (?:propozycja|wersja)|mój "
    r"wariant)\b",
    r"(?:(?:вот )?мо(?:й|я|ё) (?:вариант|версия|предложение)|как вы просили|по вашему запросу|"
    r"önerim\s*:)",
    r"我的(?:建议|建議|版本|方案|修改)|(?:按照?|根据)您的(?:要求|反馈)|(?:私の|以下(?:が|は))?(?:ご)?提案(?:です|は|:)"
    r"|修正案|제 (?:제안|버전)|اقتراحي",
)
_EDITED = (
    r"(?:kept|removed|dropped|deleted|shortened|trimmed|condensed|tightened|simplified|clarified|"
    r"reworded|"
    r"rephrased|restructured|reorgani[sz]ed|rewrote|rewritten|revised|merged|combined|"
    r"emphasi[sz]ed|stressed|"
    r"preserved|retained|focus+ed on|tried to|aimed|incorporated|streamlined|polished|refined|"
    r"improved|"
    r"strengthened|adapted|tweaked|highlighted|replaced|expanded)"
)
_TOUCHED = (
    r"(?:added|made|put|used|changed|left|included|moved|introduced|split|modified|adjusted|"
    r"wrote|turned)"
)
_OBJECT = (
    r"(?:prompts?|instructions?|tags?|format|wording|sentences?|phrases?|examples?|lines?|steps?|"
    r"rules?|parts?|"
    r"reminders?|hints?|it|tone|structure|version|template|emphasis|order|requirements?|"
    r"constraints?|"
    r"everything|same|original|changes?|shorter|clearer|explicit)"
)
_NOTE = r"(?:(?:note|nb|ps|edit|comment|remark|reason|why|explanation)(?: that)?\s*[:,]?\s+)?"
_BEGINNING = rf"(?:^[^\w\n]{{0,8}}|[.!?]\s+|[(\[]|。){_NOTE}(?:also,? |finally,? |then,? )?"
_ABOUT = (
    rf"(?:i|we)(?:'ve| have| had)?(?: \w+ly| also| only| just| then| now| have)?(?: {_EDITED}\b|"
    rf" {_TOUCHED}\b[^.!?;\n]{{0,40}}\b{_OBJECT}\b)"
    r"|(?:the )?(?:(?:required |other )?(?:tags?|wording|format(?:ting)?|tone|structure)|"
    r"rest of the (?:prompt|instruction|text)) (?:is|are|was|were|has been|have been|remains?)"
    r" (?:\w+ )?(?:unchanged|untouched|simplified|shortened|preserved|reworded|rewritten|clarified|"
    r"condensed)\b"
    r"|(?:the )?\w+(?: is| are| was| were| stays?| remains?)? (?:the )?same as before\b"
    r"|(?:this|that|it|which)(?: \w+ly| also)? (?:should|will|would|ought to|makes?|helps?|"
    r"ensures?|prevents?)\b"
    r"(?![^.!?\n]{0,80}\byour?\b)[^.!?\n]{0,60}\b(?:the (?:model|agent|policy|llm)|accuracy|"
    r"performance|"
    r"the failures?|better results|clearer to)\b"
    r"|(?:this|these|the) (?:changes?|edits?|tweaks?|additions?|rewording|rewrite|"
    r"wording)\b[^.!?\n]{0,10}?"
    r" (?:should|will|makes?|helps?|ensures?|address\w*|fix\w*|keeps?|aims?|is meant|are meant)\b"
    rf"|(?:it|this)(?: \w+)? is (?:now |also |much )?(?:more \w+|\w+er) than (?:before|the "
    rf"(?:original|old|"
    rf"previous|parent|first|current)(?: {_TEXT})?)\b"
    rf"|(?:compared (?:to|with)|unlike|in contrast to) (?:the|your) (?:original|old|previous|"
    rf"parent|current|"
    rf"first)(?: {_TEXT})?,"
    r"|i hope (?:you|it|this|that)\b|does (?:that|this) (?:work|help|look|sound)\b"
    r"|(?:shall|should|can|may|could) i (?:make|adjust|add|change|shorten|also|revise|try|do)\b"
    r"|if you(?:'d like| want| prefer| need| wish| like)[^.!?\n]{0,20}?,? i (?:can|could|will|"
    r"would)\b|i can also\b"
    r"|(?:i(?:'m| am|'d be| would be) )?happy to (?:adjust|revise|change|help|refine|tweak|iterate|"
    r"make|provide)\b"
    r"|(?:word|token|character) count\s*:?\s*\d|confidence\s*:\s*[\d.]+%?\s*$"
    r"|what (?:i |was |has |is )?(?:changed|different|new)\b[^.!?\n]{0,20}:"
    r"|why (?:this|it) (?:works|is better|helps|should|might)\b|(?:reasons?|motivation) for (?:the|"
    r"this|these) change"
    r"|(?:(?:summary|list) of )?(?:the )?(?:changes|edits|improvements|modifications|"
    r"changelog)\s*(?:made)?\s*:"
    r"|(?:edit|changelog)\s*:|expected (?:effect|improvement|impact|gain|benefit)s?\s*:"
    r"|(?:the )?(?:main |core |key |biggest )?(?:problem|issue|weakness|flaw|failure)s? (?:of|with|"
    r"in|is|was|are)\b"
    r"[^.!?\n]{0,40}\b(?:the (?:model|agent|policy|llm|prompt|instruction)|prompt)\b"
    r"|the (?:model|agent|policy|llm) (?:keeps?|often|still|failed|fails|searched|answered|"
    r"guess\w+|tends|did|"
    r"didn't|does not|doesn't|ignor\w+|forg\w+|searches|answers|stops|stopped|seems|sometimes|"
    r"usually|needs)\b"
    r"|no (?:changes?|improvements?|modifications?|revisions?) (?:(?:is|are|was|were|"
    r"seems?) )?(?:needed|necessary|"
    r"required|possible)\b|(?:the|this|your) (?:prompt|instruction) is (?:already|fine|good|"
    r"perfect)\b"
    r"|(?:there is|there's|i see|i have|i find) (?:nothing|no \w+) to (?:improve|change|fix|learn "
    r"from)\b"
    r"|i have no (?:suggestions|changes|improvements)\b"
    r"|in (?:\d+|one|two|three|most|all|some) of (?:the )?(?:\d+ )?(?:episodes|trajectories|"
    r"rollouts)\b"
    r"|(?:the|this) (?:prompt|instruction) is (?:clear|well|short|vague|too|quite|very|not)\b|"
    r"overall rating\b"
    r"|alternatively,? (?:you|one|we) [^.!?\n]{0,30}:"
    r"|both (?:parents|prompts|parent instructions|candidates)\b"
    r"|ich habe\b[^.!?\n]{0,60}\b(?:gekürzt|beibehalten|geändert|ergänzt|entfernt|hinzugefügt|"
    r"vereinfacht|"
    r"umformuliert|überarbeitet|präzisiert|verbessert|angepasst|gestrafft|formuliert)\b"
    r"|dies(?:e|er) (?:fassung|version|formulierung|vorschlag)\b|j'ai (?:raccourci|gardé|conservé|"
    r"ajouté|supprimé|"
    r"retiré|simplifié|reformulé|clarifié|précisé|modifié|changé|réécrit)\b|cette (?:version|"
    r"formulation)\b"
    r"|he (?:acortado|mantenido|añadido|agregado|eliminado|quitado|simplificado|reformulado|"
    r"aclarado|cambiado|"
    r"conservado|reescrito|modificado)\b|esta (?:versión|versão)\b|ho (?:accorciato|mantenuto|"
    r"aggiunto|rimosso|tolto|"
    r"semplificato|riformulato|chiarito|cambiato|conservato|modificato)\b|questa versione\b"
    r"|(?:encurtei|mantive|adicionei|acrescentei|removi|retirei|simplifiquei|reformulei|mudei|"
    r"alterei|reescrevi)\b"
    r"|ik heb\b[^.!?\n]{0,60}\b(?:ingekort|behouden|toegevoegd|verwijderd|vereenvoudigd|"
    r"herschreven|aangepast)\b"
    r"|deze versie\b|(?:skróci|doda|usunął|usunę|zachowa|uprości|zmieni|przeredagowa)łe?a?m\b|ta "
    r"wersja\b"
    r"|я (?:сократил|сохранил|добавил|убрал|удалил|упростил|изменил|уточнил|оставил|переписал|"
    r"переформулировал)а?\b"
    r"|эта версия\b|(?:kısalttım|ekledim|çıkardım|sadeleştirdim|değiştirdim|korudum)\b"
)
_REMARK = any_of(  # searched as it is: where a sentence begins, and hardly anywhere else
    rf"{_BEGINNING}(?:{_ABOUT})",
    r"^[ \t]*[(\[](?:added|changed|removed|modified|edited|unchanged|kept)\b|\((?:score|fitness|"
    r"reward|accuracy)\s?[:=]\s?[\d.]+\)|^[ \t]*\(\d+ (?:words|"
    r"tokens)\)[ \t]*$",
    r"我(?:保留|删除|删|缩短|简化|添加|增加|修改|调整|改写|强调|去掉|补充|优化)了|(?:这样|这个|该|此)(?:修改|改动|版本|改写|改)(?:可|能|会|更|应|后)",
    r"(?:短く|明確に|簡潔に|書き直|追加|削除|修正|変更|整理|調整)(?:し)?(?:まし|てみまし)た|(?:수정|추가|삭제|단축|정리|변경|개선|보완)(?:했|"
    r"하였)습니다",
).pattern
_OF_PROMPTS = any_of(  # no remarks where the task is about prompts
    rf"\bto (?:improve|fix|rewrite|revise|refine|strengthen|shorten|clarify) (?:this|the|"
    rf"your) {PROMPT}\b",
    rf"\b(?:from|in|of|than|to|with|into) your (?:original |current |old )?{PROMPT}\b",
    r"(?:^[^\w\n]{0,8}|[.!?,]\s+)(?:the|this) (?:prompt|instruction) (?:above |below )?(?:now|"
    r"should (?:be:|say|tell|stress|"
    r"mention|state|ask|require|make|include|explicitly|focus)|could|needs to|says|stresses|"
    r"mentions|asks|tells|was|has been|"
    r"does(?: not|n't) (?:say|tell|mention|specify|state))\b",
)
_TASK_WORD = any_of(rf"\b{PROMPT}\b")
_ELEMENT = re.compile(r"<([^\W\d_][\w-]*)>[^<>]*</\1>")


def remark(text: str, parents: Sequence[str]) -> str:
    """The words of ``text`` with which its writer speaks of the writing; empty when there are none.

    What examples enclose in tags is not looked at: a reader's thoughts may well say "I changed".
    """
    text = _ELEMENT.sub("<>", text)
    found = _INTRODUCTION.match(text.lstrip("#*_>-= \t\n\"'(["))
    found = found or _REMARK.search(text)
    if not found and not any(map(_TASK_WORD.search, parents)):
        found = _OF_PROMPTS.search(text)
    return found.group() if found else ""
