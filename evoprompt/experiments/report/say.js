// Who waits for a person's answer, and what was asked and not taken up yet; `evoprompt pool` answers.

const say = (name) => document.getElementById(`say-${name}`);

const waits = (trial, one) => {
  const parent = find(trial, find(trial, one.id)?.parents[0]);
  return element("article", {},
    element("h3", {}, named(trial, one.id), ` waits for your answer, and so does training: ${visible(trial.arm)}, seed ${trial.seed}` + (one.mean === null ? "" : `; verified ${number(one.mean)}`)),
    ...Object.entries(one.texts).flatMap(([name, text]) => {
      const before = parent?.texts[name];
      return before === text ? [] : [
        element("div", { className: "text", dir: "auto" }, visible(text)),
        before === undefined ? null : element("details", {}, element("summary", {}, `Changes from its parent ${visible(parent.id)}`), difference(before, text)),
      ];
    }),
    element("p", { className: "note" }, `To answer, run evoprompt pool approve RUN ${visible(one.id)}, or refuse.`),
  );
};

let waitingBefore = "";
const title = document.title;
const drawSay = (trials) => {
  const waiting = trials.flatMap((trial) => trial.waiting.map((one) => [trial, one]));
  const requests = trials.flatMap((trial) => trial.requests.map((one) => `${one.action} ${one.id} (${trial.arm}, seed ${trial.seed}, by ${one.by})`));
  say("section").hidden = !waiting.length && !requests.length;
  say("requests").textContent = requests.length ? visible(`Sent, and taken up at the next step: ${requests.join("; ")}`) : "";
  document.title = waiting.length ? `${waiting.length} waiting: ${title}` : title;
  const now = JSON.stringify(waiting.map(([trial, one]) => [trial.arm, trial.seed, one]));
  if (now !== waitingBefore) say("waiting").replaceChildren(...waiting.map(([trial, one]) => waits(trial, one)));
  waitingBefore = now;
};
