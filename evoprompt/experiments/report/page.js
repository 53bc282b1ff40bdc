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
  texts: new Table(by("lists"), "Texts", [
    { label: "id", kind: "short", value: (one) => one.id, show: (one) => (one.id ? named(trial, one.id) : pushed("read", () => tell(trial, one))) },
    { label: "outcome", kind: "short", value: (one) => one.outcome, filter: true },
    { label: "step", kind: "number", value: (one) => one.born },
    { label: "removed", kind: "number", value: (one) => one.died ?? null },
    { label: "weight", kind: "number", value: (one) => one.weight ?? null },
    { label: "verified", kind: "number", value: (one) => one.verified },
    { label: "rollouts", kind: "number", value: (one) => one.rollouts },
    { label: "written by", kind: "short", value: (one) => one.by, filter: true },
    { label: "remark", kind: "words", value: (one) => one.reason, show: (one) => visible(shorter(one.reason)) },
    { label: "changes", kind: "words", value: (one) => one.text, show: changed },
  ]),
  cycles: new Table(by("lists"), "Generations", [
    { label: "step", kind: "number", value: (one) => one.step },
    { label: "rounds", kind: "number", value: (one) => one.rounds },
    { label: "proposed", kind: "number", value: (one) => one.proposed },
    { label: "refused by screening", kind: "number", value: (one) => one.refused },
    { label: "admitted", kind: "number", value: (one) => one.admitted },
    { label: "extra rollouts", kind: "number", value: (one) => one.rollouts },
    { label: "active", kind: "number", value: (one) => one.population },
    { label: "failure", kind: "words", value: (one) => one.failure },
  ]),
  notices: new Table(by("lists"), "Notices", [
    { label: "step", kind: "number", value: (one) => one.step },
    { label: "message", kind: "words", value: (one) => one.message },
  ]),
  tests: new Table(by("tests"), "Questions", [
    { label: "question", kind: "words", value: (one) => one.text },
    { label: "kind", kind: "short", value: (one) => one.kind, filter: true },
    { label: "before", kind: "number", value: (one) => one.before },
    { label: "after", kind: "number", value: (one) => one.after },
    { label: "change", kind: "short", value: (one) => one.change, filter: true },
  ]),
};

// Which test questions flipped between two arms; an arm is the mean over its seeds.
const fillTests = () => {
  const { trials, rows } = found.tests;
  const names = Object.keys(found.arms).filter((arm) => trials.some((one) => one.arm === arm));
  by("questions-section").hidden = by("to-questions").hidden = !rows.length;
  for (const [at, select] of [by("before"), by("after")].entries()) {
    const kept = names.includes(select.value) ? select.value : names[Math.min(at, names.length - 1)];
    select.replaceChildren(...names.map((arm) => element("option", { value: arm, selected: arm === kept }, visible(arm))));
    select.onchange = fillTests;
  }
  const isCompared = names.length > 1; // one arm is not compared with itself
  by("compared-arms").hidden = !isCompared;
  const mean = (row, arm) => {
    const values = row.values.filter((value, at) => trials[at].arm === arm && value !== null);
    return values.length ? values.reduce((sum, one) => sum + one, 0) / values.length : null;
  };
  const compared = rows.map((row) => {
    const [before, after] = [isCompared ? mean(row, by("before").value) : null, mean(row, by("after").value)];
    const change = before === null || after === null ? isCompared ? "unknown" : "" : before === after ? "same" : (after > before) === found.higher ? "better" : "worse";
    return { ...row, before, after, change };
  });
  const count = (change) => compared.filter((one) => one.change === change).length.toLocaleString("en");
  by("flipped").textContent = !isCompared ? `The test of ${visible(names[0] ?? "")}, the only arm with one.` : `From ${visible(by("before").value)} to ${visible(by("after").value)}, ${count("better")} of ${rows.length.toLocaleString("en")} questions came out better and ${count("worse")} worse.`;
  lists.tests.set(compared);
};

const drawHeat = async () => {
  if (!found.tests.rows.length) return;
  charts.heat ??= new Chart(by("heat"), "What came of each test question", "What came of each test question in each trial; the table of questions holds the same");
  await charts.heat.draw(() => heat(found.tests));
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
  const entered = trial.texts.filter(lived).length;
  const written = trial.texts.filter((one) => one.by !== "seed");
  const refused = written.filter((one) => one.outcome === "refused").length;
  const many = (number, one) => `${number.toLocaleString("en")} ${one}${number === 1 ? "" : "s"}`;
  by("counts").textContent = `${many(entered, "instruction")} entered the population, the first ones included. Of ${many(written.length, "proposal")}, screening refused ${refused.toLocaleString("en")} before any rollout.`;
  lists.texts.set(trial.texts);
  lists.cycles.set(trial.cycles);
  lists.notices.set(trial.notices);
};

const drawTrial = async () => {
  by("timeline").hidden = !trial;
  if (!trial) return;
  charts.timeline ??= new Chart(by("timeline"), "Lives of the candidates", "Lives of the candidates over training steps; the table of texts holds the same");
  await charts.timeline.draw(() => timeline(trial), (bar) => tell(trial, bar.id));
};

const drawArms = () => {
  by("arms").hidden = Object.keys(found.arms).length < 2;
  by("arms").replaceChildren(by("arms").querySelector("legend"), ...Object.entries(found.arms).map(([name, { color, line }]) => {
    const box = element("input", { type: "checkbox", checked: !hidden.has(name) });
    box.addEventListener("change", () => (box.checked ? hidden.delete(name) : hidden.add(name), draw()));
    const swatch = element("span", { className: "swatch" });
    swatch.style.borderTop = `3px ${line} ${color}`;
    return element("label", {}, box, swatch, visible(name));
  }));
};

const chooseTrial = () => {
  const shown = found.trials.filter((one) => !hidden.has(one.arm));
  const same = (one) => trial && one.arm === trial.arm && one.seed === trial.seed;
  trial = shown.find(same) ?? shown.find((one) => one.texts.some((text) => text.wins && text.parents.length)) ?? shown[0];
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
  fillTests();
  await drawValidation();
  await drawTrial();
  await drawPanels();
  await drawHeat();
  document.body.dataset.ready = "true";
}));
const redraw = () => (pending = pending.then(async () => {
  for (const chart of [...Object.values(charts), ...panels.values()]) await chart.again?.();
}));
darkness.addEventListener("change", redraw);
matchMedia("print").addEventListener("change", () => darkness.matches && redraw());

document.addEventListener("click", ({ target }) => {
  const { copies, saves } = target.dataset;
  if (copies) copy(target, by(copies).textContent);
  if (saves) csv(saves, [...by(saves).rows].map((row) => [...row.cells].map((cell) => cell.innerText)));
});

// A link to a candidate: #arm/seed/id.
const follow = () => {
  const [arm, seed, id] = location.hash.slice(1).split("/").map(decodeURIComponent);
  const linked = id && found.trials.find((one) => one.arm === arm && String(one.seed) === seed);
  if (linked) tell((trial = linked), id);
  if (linked) return draw();
};
addEventListener("hashchange", follow);

found = await unpack(by("data").textContent);
await draw();
await follow();

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
  const keepUp = async () => {
    tellState(await renew());
    setTimeout(keepUp, 1000);
  };
  keepUp();
}
