// Unpacks the data, fills the page, and in a live page asks for news.

const by = (id) => document.getElementById(id);
const unpack = async (text) => {
  const bytes = Uint8Array.from(atob(text.trim()), (letter) => letter.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).json();
};

const QUIET = 180; // seconds without news after which a live page doubts that somebody is at work

let found;
let trial;
const hidden = new Set();
const charts = {};
const panels = new Map();

const arms = () => Object.fromEntries(Object.entries(found.arms).filter(([name]) => !hidden.has(name)));
const seen = (rows) => rows.filter((row) => !hidden.has(row.arm));

// What a text changes of its first parent's; the whole text of one that has no parent.
const changed = (one) => {
  const parent = one?.parents.length ? find(trial, one.parents[0]) : null;
  if (!parent) return visible(shorter(one?.text ?? ""));
  const [old, fresh] = [sentences(parent.text ?? ""), sentences(one.text)];
  const parts = [
    ...fresh.filter((text) => !old.includes(text)).map((text) => element("ins", {}, visible(shorter(text, 120)))),
    ...old.filter((text) => !fresh.includes(text)).map((text) => element("del", {}, visible(shorter(text, 120)))),
  ];
  const most = 6;
  const more = parts.length > most ? [element("span", { className: "note" }, `and ${parts.length - most} more`)] : [];
  return parts.length ? element("div", { className: "changes" }, ...parts.slice(0, most), ...more) : "the order of its sentences";
};

const lists = {
  candidates: new Table(by("lists"), "Candidates", [
    { label: "id", kind: "short", value: (one) => one.id, show: (one) => named(trial, one.id) },
    { label: "added", kind: "number", value: (one) => one.born },
    { label: "removed", kind: "number", value: (one) => one.died, show: (one) => (one.died === null ? "alive" : number(one.died)) },
    { label: "weight", kind: "number", value: (one) => one.weight },
    { label: "verified", kind: "number", value: (one) => one.verified },
    { label: "questions", kind: "number", value: (one) => one.draws },
    { label: "written by", kind: "short", value: (one) => one.by, filter: true },
    { label: "parents", kind: "short", value: (one) => one.parents.join(", ") },
    { label: "changes", kind: "words", value: (one) => one.text, show: changed },
  ]),
  proposals: new Table(by("lists"), "Proposals", [
    { label: "step", kind: "number", value: (one) => one.step },
    { label: "text", kind: "short", value: (one) => one.id, show: (one) => (one.id ? named(trial, one.id) : reading(one)) },
    { label: "outcome", kind: "short", value: (one) => one.outcome, filter: true },
    { label: "written by", kind: "short", value: (one) => one.by, filter: true },
    { label: "parents", kind: "short", value: (one) => one.parents.join(", ") },
    { label: "why not", kind: "words", value: (one) => one.reason, show: (one) => visible(shorter(one.reason)) },
    { label: "changes", kind: "words", value: (one) => (one.texts ? one.text : (find(trial, one.id)?.text ?? "")), show: (one) => changed(one.texts ? one : find(trial, one.id)) },
  ]),
  cycles: new Table(by("lists"), "Generations", [
    { label: "step", kind: "number", value: (one) => one.step },
    { label: "rounds", kind: "number", value: (one) => one.rounds },
    { label: "proposed", kind: "number", value: (one) => one.proposed },
    { label: "refused by screening", kind: "number", value: (one) => one.refused },
    { label: "admitted", kind: "number", value: (one) => one.admitted },
    { label: "rollouts", kind: "number", value: (one) => one.rollouts },
    { label: "alive", kind: "number", value: (one) => one.population },
    { label: "failure", kind: "words", value: (one) => one.failure },
  ]),
  notices: new Table(by("lists"), "Notices", [
    { label: "step", kind: "number", value: (one) => one.step },
    { label: "message", kind: "words", value: (one) => one.message },
  ]),
};

const reading = (one) => {
  const button = element("button", { type: "button" }, "read");
  button.addEventListener("click", () => tell(trial, one));
  return button;
};

const drawValidation = async () => {
  by("validation").hidden = !found.validation.length;
  if (!found.validation.length) return;
  charts.validation ??= new Chart(by("validation"), `${found.label} on validation questions`, `${found.label} on validation questions over rollouts, a line for each arm; the table of results holds the last values`);
  await charts.validation.draw(() => curves(seen(found.validation), arms(), "rollouts, verification included", found.label, 320, found.target));
};

const drawPanels = async () => {
  by("training").hidden = !found.panels.length;
  for (const panel of found.panels) {
    if (!panels.has(panel.name)) panels.set(panel.name, new Chart(by("panels"), panel.title, `${panel.title} over training steps, a line for each arm`));
    await panels.get(panel.name).draw(() => curves(seen(found.panels.find((one) => one.name === panel.name)?.rows ?? []), arms(), "training step", "", 180, null));
  }
};

const fillTables = () => {
  if (!trial) return;
  const refused = trial.proposals.filter((one) => one.outcome === "refused").length;
  const many = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
  by("counts").textContent = `${many(trial.lives.length, "instruction")} entered the population, the first ones included. Of ${many(trial.proposals.length, "proposal")}, screening refused ${refused.toLocaleString("en")} before any rollout.`;
  lists.candidates.set(trial.lives);
  lists.proposals.set(trial.proposals);
  lists.cycles.set(trial.cycles);
  lists.notices.set(trial.notices);
};

const drawTrial = async () => {
  by("timeline").hidden = !trial;
  if (!trial) return;
  charts.timeline ??= new Chart(by("timeline"), "", "Lives of the candidates over training steps; the table of candidates holds the same");
  await charts.timeline.draw(() => timeline(trial), (bar) => tell(trial, bar.id));
};

const drawArms = () => {
  by("arms").hidden = Object.keys(found.arms).length < 2;
  by("arms").replaceChildren(by("arms").querySelector("legend"), ...Object.keys(found.arms).map((name, at) => {
    const box = element("input", { type: "checkbox", checked: !hidden.has(name) });
    box.addEventListener("change", () => (box.checked ? hidden.delete(name) : hidden.add(name), draw()));
    const swatch = element("span", { className: "swatch" });
    swatch.style.borderTop = `3px ${LINES[at % LINES.length]} ${found.arms[name]}`;
    return element("label", {}, box, swatch, visible(name));
  }));
};

const chooseTrial = () => {
  const shown = found.trials.filter((one) => !hidden.has(one.arm));
  const same = (one) => trial && one.arm === trial.arm && one.seed === trial.seed;
  trial = shown.find(same) ?? shown.find((one) => one.lives.some((life) => life.wins && life.parents.length)) ?? shown[0];
  by("trial").replaceChildren(...shown.map((one, at) => element("option", { value: at, selected: same(one) }, visible(`${one.arm}, seed ${one.seed}`))));
  by("trial").onchange = () => ((trial = shown[by("trial").value]), fillTables(), drawTrial());
};

// One after the other: a later drawing must not overtake an earlier one.
let pending = Promise.resolve();
const draw = () => (pending = pending.then(async () => {
  drawArms();
  chooseTrial();
  drawSay(found.trials);
  fillTables();
  await drawValidation();
  await drawTrial();
  await drawPanels();
  document.body.dataset.ready = "true";
}));
const redraw = () => (pending = pending.then(async () => {
  for (const chart of [...Object.values(charts), ...panels.values()]) await chart.again?.();
}));
darkness.addEventListener("change", redraw);
matchMedia("print").addEventListener("change", () => darkness.matches && redraw());

found = await unpack(by("data").textContent);
await draw();

let { version } = by("data").dataset;
if (version) {
  let written = Number(by("data").dataset.written); // seconds since 1970
  const tellState = (trouble) => {
    const silent = Date.now() / 1000 - written;
    const minutes = Math.floor(silent / 60);
    const said = trouble || (found.finished ? "All trials that have begun are finished."
      : silent < QUIET ? `Live: last written at ${new Date(written * 1000).toLocaleTimeString()}.`
      : `Nothing was written for ${minutes < 120 ? `${minutes} minutes` : `${Math.floor(minutes / 60)} hours`}: the run is waiting, has ended or was stopped.`);
    by("live").hidden = false;
    if (by("live").textContent !== said) by("live").textContent = said; // it is read out when it changes
  };
  const renew = async () => {
    const news = await fetch("/version").catch(() => null);
    if (!news?.ok) return "The server does not answer; this page goes on as soon as it does.";
    const now = await news.text();
    if (now === version) return "";
    const answer = await fetch("/").catch(() => null);
    if (!answer?.ok) return "The run cannot be read just now.";
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    by("result").parentElement.replaceWith(fresh.getElementById("result").parentElement);
    document.querySelector("section.problems")?.remove();
    const problems = fresh.querySelector("section.problems");
    if (problems) document.querySelector("main").prepend(problems);
    found = await unpack(fresh.getElementById("data").textContent);
    ({ version } = fresh.getElementById("data").dataset);
    written = Number(fresh.getElementById("data").dataset.written);
    await draw();
    return "";
  };
  const follow = async () => {
    tellState(await renew());
    setTimeout(follow, 1000);
  };
  follow();
}
