// What a person is asked and may ask; it is only sent in a page of `evoprompt watch --allow-changes`.

const mayChange = Boolean(document.getElementById("data").dataset.changes);
const say = (name) => document.getElementById(`say-${name}`);

const ask = async (trial, action, id, components, said) => {
  said.textContent = "Sending…";
  const answer = await fetch("/requests", {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${say("token").value.trim()}` },
    body: JSON.stringify({ arm: trial.arm, seed: trial.seed, action, candidate: id, components }),
  }).catch(() => null);
  said.textContent = answer ? visible(await answer.text()) : "The server could not be reached.";
  return answer?.ok;
};

// Buttons for `actions` on a candidate, and a line that tells what came of it.
const choices = (trial, one, actions) => {
  const said = element("span", { role: "status" });
  const buttons = actions.map((action) => {
    const button = element("button", { type: "button" }, action[0].toUpperCase() + action.slice(1));
    button.addEventListener("click", async () => {
      const all = button.parentElement.querySelectorAll("button");
      all.forEach((other) => (other.disabled = true));
      if (!(await ask(trial, action, one.id, one.texts, said))) all.forEach((other) => (other.disabled = false));
    });
    return button;
  });
  return element("div", { className: "tools" }, ...buttons, said);
};

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
    mayChange ? choices(trial, one, ["approve", "refuse"]) : element("p", { className: "note" }, `To answer, run evoprompt pool approve RUN ${visible(one.id)} (or refuse), or open this page by evoprompt watch --allow-changes.`),
  );
};

let waitingBefore = "";
const title = document.title;
const drawSay = (trials) => {
  const waiting = trials.flatMap((trial) => trial.waiting.map((one) => [trial, one]));
  const asked = trials.flatMap((trial) => trial.asked.map((one) => `${one.action} ${one.id} (${trial.arm}, seed ${trial.seed}, by ${one.by})`));
  say("section").hidden = !mayChange && !waiting.length && !asked.length;
  say("tools").hidden = say("who").hidden = !mayChange;
  say("asked").textContent = asked.length ? visible(`Sent, and taken up at the next step: ${asked.join("; ")}`) : "";
  document.title = waiting.length ? `${waiting.length} waiting: ${title}` : title;
  const now = JSON.stringify(waiting.map(([trial, one]) => [trial.arm, trial.seed, one]));
  if (now !== waitingBefore) say("waiting").replaceChildren(...waiting.map(([trial, one]) => waits(trial, one)));
  waitingBefore = now;
};

say("add").addEventListener("click", async () => {
  if (await ask(trial, "add", "", { instruction: say("text").value }, say("asked"))) say("text").value = "";
});
