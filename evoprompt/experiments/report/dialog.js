// The story of one text: what it says, what it changed, why, and what became of it.

const dialog = document.getElementById("story");
document.getElementById("story-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname));

const link = (trial, id) => `#${[trial.arm, trial.seed, id].map(encodeURIComponent).join("/")}`;

const copy = (button, text) =>
  navigator.clipboard.writeText(text).then(() => (button.textContent = "Copied"), () => (button.textContent = "The browser refused: copy it by hand"));

const copying = (text) => {
  const button = pushed("Copy", () => copy(button, text));
  return button;
};

const sentences = (text) =>
  text.split(/\r?\n/).flatMap((line) => line.split(/(?<=[.!?])\s+/)).map((one) => one.trim()).filter(Boolean);

const difference = (before, after) => {
  const [old, fresh] = [sentences(before), sentences(after)];
  const list = element("ul", { className: "diff" });
  for (const one of fresh) list.append(element("li", { dir: "auto" }, old.includes(one) ? visible(one) : element("ins", {}, visible(one))));
  for (const one of old) if (!fresh.includes(one)) list.append(element("li", { dir: "auto" }, element("del", {}, visible(one))));
  return list;
};

const facts = (pairs) =>
  element("dl", {}, ...pairs.filter(([, value]) => value !== null && value !== undefined && value !== "")
    .flatMap(([name, value]) => [element("dt", {}, name), element("dd", { dir: "auto" }, value instanceof Node ? value : visible(value))]));

const named = (trial, id) => {
  const button = element("button", { type: "button" }, visible(id));
  button.addEventListener("click", () => tell(trial, id));
  return button;
};

const others = (trial, ids) => {
  const line = element("span");
  ids.forEach((id, at) => line.append(at ? ", " : "", named(trial, id)));
  return line;
};

const find = (trial, id) => trial.texts.find((one) => id && one.id === id);
const lived = (one) => one.lane !== undefined;

const measured = (check) =>
  `${number(check.mean) || "nothing scored"}${check.stderr === null ? "" : ` ± ${number(check.stderr)}`} over ${check.scored} rollouts, ` +
  (check.admitted ? "admitted" : "dropped") + (check.reason ? `: ${check.reason}` : "");

// One rollout: what the policy said, and in another colour what it was shown and not trained on.
const episode = (one) => {
  const part = (name, className, text) => (text ? element("div", { className, dir: "auto" }, element("b", {}, name), visible(text)) : null);
  return element("details", {},
    element("summary", {}, `Step ${one.step}, reward ${number(one.reward, 2)}: ${visible(shorter(one.question, 80))}`),
    part("Question", "seen", one.question),
    part("Correct answer", "seen", one.answer),
    ...one.turns.flatMap((turn) => [part("Policy", "said", turn.action), part("Environment (masked: no training signal)", "seen", turn.observation)]),
    part("Feedback of the task", "seen", one.feedback),
    one.left_out ? element("p", { className: "note" }, `${number(one.left_out)} characters are left out, here and in events.jsonl.`) : null,
  );
};

// Rollouts that were kept for reading; null where a page has no room for them, undefined where nobody could make any.
const rollouts = (title, kept) => {
  if (kept === undefined) return [];
  if (kept === null) return [element("h3", {}, title), element("p", { className: "note" }, "Left out to keep this page small; the run's events.jsonl holds them.")];
  if (!kept.length) return [];
  const sorted = [...kept].sort((one, other) => one.reward - other.reward || other.step - one.step);
  return [element("h3", {}, `${title}, worst first`), ...sorted.map(episode)];
};

// A table whose columns are two texts: what is known of both, and what each says that the other does not.
const beside = (other, told) => {
  const row = (name, cells) => element("tr", {}, element("th", { scope: "row" }, name), ...cells.map((cell) => element("td", { className: "words", dir: "auto" }, cell)));
  const known = { weight: "weight", verified: "reward in verification", rollouts: "rollouts in training" };
  const said = (one, against, mark, name) => element("ul", { className: "diff" }, ...sentences(one.texts[name] ?? "").map((text) =>
    element("li", {}, sentences(against.texts[name] ?? "").includes(text) ? visible(text) : element(mark, {}, visible(text)))));
  return element("table", {},
    element("thead", {}, element("tr", {}, element("td"), ...[other, told].map((one) => element("th", { scope: "col", className: "words" }, visible(one.id || "this proposal"))))),
    element("tbody", {},
      ...Object.entries(known).map(([name, title]) => row(title, [other, told].map((one) => number(one[name]) || "not known"))),
      ...Object.keys(told.texts).map((name) => row(visible(name), [said(other, told, "del", name), said(told, other, "ins", name)]))));
};

// The questions that two texts came out differently on, a shade for each reward.
const flipped = (trial, other, told) => {
  const rows = trial.disagreements.map(([step, question, means]) => ({ step, question, before: means[other.id], after: means[told.id] })).filter((one) => one.before !== undefined && one.after !== undefined && one.before !== one.after);
  if (!rows.length) return [element("p", { className: "note" }, "No question is kept on which the two came out differently in the same step.")];
  const [low, high] = [Math.min(...rows.flatMap((one) => [one.before, one.after])), Math.max(...rows.flatMap((one) => [one.before, one.after]))];
  const better = rows.filter((one) => one.after > one.before).length;
  const host = element("div", {}, element("p", {}, `Of ${rows.length.toLocaleString("en")} questions that the two came out differently on in the same step, ${better.toLocaleString("en")} came out better under ${visible(told.id)}. A step keeps eight such questions at most; one answer may be chance.`));
  const shaded = (name) => (one) => {
    const cell = element("span", { className: "shaded" }, number(one[name]));
    cell.style.setProperty("--share", `${Math.round((40 * (one[name] - low)) / (high - low))}%`);
    return cell;
  };
  new Table(host, "Questions that flipped", [
    { label: "step", kind: "number", value: (one) => one.step },
    { label: "question", kind: "words", value: (one) => one.question },
    { label: visible(other.id), kind: "number", value: (one) => one.before, show: shaded("before") },
    { label: visible(told.id), kind: "number", value: (one) => one.after, show: shaded("after") },
  ]).set(rows);
  return [host];
};

// What a text is compared with: its first parent, or whichever other one is chosen.
const comparing = (trial, told) => {
  const others = trial.texts.filter((one) => one.id && one !== told);
  if (!others.length) return [];
  const select = element("select", {}, ...others.map((one) => element("option", { value: one.id, selected: one.id === told.parents[0] }, visible(one.id))));
  const body = element("div");
  const show = () => {
    const other = find(trial, select.value);
    const table = element("div", { className: "wide", tabIndex: 0, role: "region" }, beside(other, told));
    table.setAttribute("aria-label", "Two texts beside each other");
    body.replaceChildren(table, ...(told.id ? flipped(trial, other, told) : []));
  };
  select.addEventListener("change", show);
  show();
  return [element("h3", {}, element("label", {}, "Beside ", select)), body];
};

// The lowest and the highest reward of the rollouts that are there to read.
const extremes = (trial) => {
  const rewards = trial.texts.flatMap((one) => [...(one.answers ?? []), ...(one.episodes ?? [])].map((rollout) => rollout.reward));
  return rewards.reduce(([low, high], one) => [Math.min(low, one), Math.max(high, one)], [Infinity, -Infinity]);
};

// Opens the dialog for a candidate's id, or for a proposal that has none.
const tell = (trial, which) => {
  const told = typeof which === "object" ? which : find(trial, which);
  if (!told) return;
  const children = told.id ? trial.texts.filter((one) => lived(one) && one.parents.includes(told.id)).map((one) => one.id) : [];
  const body = [facts([
    ["Outcome", told.outcome],
    ["Remark", told.reason],
    ["In the population", lived(told) ? `from step ${told.born} ${told.died === null ? "until now" : `to step ${told.died}`}` : null],
    ["Proposed", lived(told) ? null : `at step ${told.born}`],
    ["Written by", told.by],
    ["Parents", told.parents.length ? others(trial, told.parents) : null],
    ["Children", children.length ? others(trial, children) : null],
    ["Weight", number(told.weight) + (told.weights?.at(-1)?.[2] ? ` ± ${number(told.weights.at(-1)[2])} (standard error)` : "")],
    ["Rollouts in training", number(told.rollouts)],
    ["Pinned", told.pinned ? "by a person: it is not removed, whatever its weight" : ""],
    ["Rationale", told.why],
    ...told.checks.map((check) => [`Verification, round ${check.round}`, measured(check)]),
  ])];
  const names = Object.keys(told.texts);
  for (const name of names) {
    const text = told.texts[name];
    body.push(element("h3", {}, names.length > 1 ? `Text of ${visible(name)}` : "Text"));
    body.push(element("div", { className: "text", dir: "auto" }, visible(text)), copying(text));
  }
  body.push(...comparing(trial, told));
  body.push(...rollouts("Rollouts in verification", told.answers), ...rollouts("Rollouts in training", told.episodes));
  const drawn = element("div");
  body.push(drawn);
  document.getElementById("story-title").textContent = told.id ? `Candidate ${visible(told.id)}` : "A refused proposal";
  document.getElementById("story-body").replaceChildren(...body);
  if (told.id) history.replaceState(null, "", link(trial, told.id));
  if (!dialog.open) dialog.showModal();
  dialog.scrollTop = 0;
  document.getElementById("story-title").focus();
  if (told.weights?.length > 1) new Chart(drawn, "Importance weight, with its 95 % interval", `Importance weight of ${told.id}`).draw(() => weights(told, extremes(trial)));
};
