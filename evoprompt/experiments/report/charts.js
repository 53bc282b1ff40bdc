// Specifications of the pictures, which Vega-Lite draws.

const darkness = matchMedia("(prefers-color-scheme: dark)");
const isDark = () => darkness.matches && !matchMedia("print").matches;

const look = (dark) => {
  const [ink, faint, grid] = dark ? ["#e8e8e8", "#b0b0b0", "#3a3a3a"] : ["#222222", "#595959", "#e6e6e6"];
  const axis = { labelColor: ink, titleColor: ink, gridColor: grid, domainColor: faint, tickColor: faint, titleFontWeight: "normal", labelFontSize: 12, titleFontSize: 12 };
  return { background: null, font: "system-ui, sans-serif", axis, legend: { labelColor: ink, titleColor: ink, labelFontSize: 12, orient: "top", title: null, labelLimit: 240, symbolStrokeWidth: 3, columns: innerWidth < 600 ? 2 : 5 }, view: { stroke: null } };
};

const zooming = { name: "zoom", select: { type: "interval", zoom: "wheel![event.shiftKey]" }, bind: "scales" };
const DASHES = { solid: [1, 0], dashed: [8, 3], dotted: [2, 2] };

class Chart {
  constructor(host, title, description) {
    this.place = element("div", { className: "chart" });
    const picture = pushed("PNG", async () => save(`${title}.png`, await this.drawing.view.toImageURL("png", 2)));
    picture.setAttribute("aria-label", `PNG: ${visible(title)}`);
    host.append(element("figure", {}, element("figcaption", {}, visible(title), " ", picture), this.place));
    this.description = visible(description);
    this.drawing = null;
  }

  async draw(spec, clicked) {
    this.again = () => this.draw(spec, clicked);
    this.drawing?.finalize();
    this.drawing = await window.vegaEmbed(
      this.place,
      { $schema: "https://vega.github.io/schema/vega-lite/v6.json", description: this.description, width: "container", autosize: { type: "fit-x", contains: "padding" }, ...spec() },
      { actions: false, ast: true, renderer: "canvas", config: look(isDark()), patch: withTexts, tooltip: { sanitize: (value) => plain(String(value)) } },
    );
    if (clicked) this.drawing.view.addEventListener("click", (_, item) => item?.datum?.id !== undefined && clicked(item.datum));
  }
}

// Vega-Lite 6.4 loses texts in what it says of the nearest point: their expressions lack a "datum".
const withTexts = (spec) => {
  for (const mark of spec.marks.filter((one) => one.name?.includes("voronoi"))) {
    const told = mark.encode?.update?.tooltip;
    if (told?.signal) told.signal = told.signal.replace(/(?<!datum\.)datum\[/g, "datum.datum[");
  }
  return spec;
};

const plain = (text) => visible(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;");

// Lines with their bands; arms: {name: {color, line}} in their order, rows: {arm, x, y, low, high, seeds}.
const curves = (rows, arms, x, y, height, target) => {
  const names = Object.keys(arms);
  const color = { field: "arm", type: "nominal", legend: null, scale: { domain: names, range: Object.values(arms).map((one) => one.color) } };
  const strokeDash = { field: "arm", type: "nominal", legend: null, scale: { domain: names, range: Object.values(arms).map((one) => DASHES[one.line]) } };
  const horizontal = { field: "x", type: "quantitative", title: x, axis: { tickCount: 6, tickMinStep: 1, labelExpr: "format(datum.value, '~s')" }, scale: { nice: false, zero: false } };
  const vertical = { field: "y", type: "quantitative", title: y, scale: { zero: false } };
  const layer = [
    { mark: { type: "area", opacity: 0.2, clip: true }, encoding: { y: { ...vertical, field: "low" }, y2: { field: "high" }, color } },
    { mark: { type: "line", strokeWidth: 2, clip: true }, params: [zooming], encoding: { y: vertical, color, strokeDash } },
    {
      mark: { type: "point", size: 60, filled: true },
      params: [{ name: "near", select: { type: "point", on: "pointerover", clear: "pointerout", nearest: true } }],
      encoding: {
        y: vertical, color, opacity: { condition: { param: "near", empty: false, value: 1 }, value: 0 },
        tooltip: [{ field: "arm" }, { field: "x", title: x, format: "," }, { field: "y", title: "mean", format: ".4~g" }, { field: "low", title: "lowest seed", format: ".4~g" }, { field: "high", title: "highest seed", format: ".4~g" }, { field: "seeds", type: "quantitative", format: "d" }],
      },
    },
  ];
  if (target !== null) layer.push({ data: { values: [{}] }, mark: { type: "rule", strokeDash: [2, 3], color: "#888" }, encoding: { x: null, y: { datum: target } } });
  return { data: { values: rows }, height, encoding: { x: horizontal }, layer };
};

// Lives as bars in lanes.
const timeline = (trial) => {
  const end = trial.end * 1.02; // so that those of the last step are seen
  const lives = trial.texts.filter(lived);
  const lane = new Map(lives.map((life) => [life.id, life.lane]));
  const bars = lives.map((life) => ({
    id: life.id, born: life.born, until: Math.max(life.died ?? end, life.born + trial.end / 400), left: life.died ?? "active",
    top: life.lane + 0.12, bottom: life.lane + 0.88, weight: life.weight, told: number(life.weight) || "not measured", error: number(life.weights.at(-1)?.[2]) || "unknown", verified: number(life.verified) || "never", rollouts: life.rollouts, wins: life.wins, text: shorter(life.text, 200),
  }));
  const wins = new Set(lives.filter((life) => life.wins).map((life) => life.id));
  const links = lives.flatMap((life) => life.parents.filter((parent) => lane.has(parent)).map((parent) => (
    { born: life.born, from: lane.get(parent) + 0.5, to: life.lane + 0.5, wins: wins.has(parent) && life.wins })));
  const rows = 1 + Math.max(0, ...lane.values());
  const dark = isDark();
  const known = bars.map((bar) => bar.weight).filter((weight) => weight !== null);
  const [lightest, darkest] = [known.reduce((low, one) => Math.min(low, one), Infinity), known.reduce((high, one) => Math.max(high, one), -Infinity)];
  const middle = known.length ? (lightest + darkest) / 2 : 0;
  const accent = dark ? "#ff9a66" : "#b3400e";
  const step = trial.trained ? "training step" : "iteration"
  const x = { field: "born", type: "quantitative", title: step, scale: { nice: false, domain: [0, end] }, axis: { grid: false, tickCount: 8, labelExpr: "datum.value % 1 ? '' : format(datum.value, ',')" } };
  const y = { type: "quantitative", axis: null, scale: { reverse: true, nice: false, zero: false, domain: [0, Math.min(rows, 60)] } };
  return {
    height: Math.min(560, 60 + rows * 18), encoding: { x },
    layer: [
      { data: { values: links }, mark: { type: "rule", clip: true }, encoding: { y: { ...y, field: "from" }, y2: { field: "to" }, color: { condition: { test: "datum.wins", value: accent }, value: dark ? "#777" : "#b5b5b5" }, size: { condition: { test: "datum.wins", value: 2.5 }, value: 0.8 } } },
      {
        data: { values: bars }, params: [zooming], mark: { type: "rect", clip: true, cursor: "pointer", cornerRadius: 2, invalid: "show" },
        encoding: {
          x2: { field: "until" }, y: { ...y, field: "top" }, y2: { field: "bottom" },
          color: { condition: { test: "!isValid(datum.weight)", value: dark ? "#333" : "#eee" }, field: "weight", type: "quantitative", title: "weight", legend: { orient: "top", title: "weight", gradientLength: 120 }, scale: { range: dark ? ["#484848", "#f4f4f4"] : ["#d9d9d9", "#202020"] } },
          stroke: { condition: { test: "datum.wins", value: accent }, value: null }, strokeWidth: { condition: { test: "datum.wins", value: 3 }, value: 0 },
          tooltip: [{ field: "id", title: "candidate" }, { field: "born", title: "added at step" }, { field: "left", title: "removed at step" }, { field: "told", title: "weight" }, { field: "error", title: "± standard error" }, { field: "verified", title: "reward in verification" }, { field: "rollouts", title: "rollouts in training" }, { field: "text" }],
        },
      },
      ...(bars.length > 80 ? [] : [{ data: { values: bars }, mark: { type: "text", align: "left", dx: 5, fontSize: 10, clip: true, fontWeight: "bold" }, encoding: { y: { ...y, field: "middle" }, text: { field: "id" }, color: { condition: { test: `datum.weight > ${middle}`, value: dark ? "#111" : "#fff" }, value: dark ? "#fff" : "#111" } }, transform: [{ calculate: "(datum.top + datum.bottom) / 2", as: "middle" }] }]),
    ],
  };
};

// What came of each test question in each trial; rows: {text, kind, values}.
const heat = (tests) => {
  const trials = tests.trials.map((one) => `${one.arm}, ${one.seed}`);
  const total = (row) => row.values.reduce((sum, value) => sum + (value ?? 0), 0);
  const sorted = [...tests.rows].sort((one, other) => one.kind.localeCompare(other.kind) || total(other) - total(one));
  const values = sorted.flatMap((row, at) => row.values.map((value, column) => (
    { at, trial: trials[column], value, told: number(value) || "no score", kind: row.kind || "questions", text: shorter(row.text, 200) })));
  return {
    data: { values }, height: Math.max(120, Math.min(600, 4 * sorted.length)), mark: { type: "rect", invalid: "show" },
    encoding: {
      x: { field: "trial", type: "nominal", title: null, sort: trials, axis: { labelAngle: 0, labelLimit: 160 } },
      y: { field: "at", type: "ordinal", axis: null, scale: { paddingInner: 0 } },
      color: { field: "value", type: "quantitative", title: "value", legend: { orient: "top", title: "value", gradientLength: 120 }, scale: { range: isDark() ? ["#333333", "#6db3ea"] : ["#e6e6e6", "#1f77b4"] } },
      tooltip: [{ field: "trial" }, { field: "text", title: "question" }, { field: "kind" }, { field: "told", title: "value" }],
    },
  };
};

// The importance weight of one candidate over its life, with its 95 % interval where that is known.
// No weight lies beyond the lowest and the highest reward, and so does no interval.
const weights = (life, [lowest, highest]) => ({
  height: 120,
  data: { values: life.weights.map(([step, weight, error]) => {
    const ends = error === null ? {} : { low: Math.max(weight - 1.96 * error, Math.min(lowest, weight)), high: Math.min(weight + 1.96 * error, Math.max(highest, weight)) };
    return { step, weight, ...ends, interval: error === null ? "unknown" : `${number(ends.low)} to ${number(ends.high)}` };
  }) },
  encoding: { x: { field: "step", type: "quantitative", title: "training step", axis: { tickMinStep: 1, format: "d" }, scale: { nice: false, zero: false } } },
  layer: [
    { transform: [{ filter: "isValid(datum.low)" }], mark: { type: "area", opacity: 0.2 }, encoding: { y: { field: "low", type: "quantitative", title: "weight", scale: { zero: false } }, y2: { field: "high" } } },
    { mark: { type: "line", point: true }, encoding: { y: { field: "weight", type: "quantitative", title: "weight" }, tooltip: [{ field: "step" }, { field: "weight", format: ".3f" }, { field: "interval", title: "95 % interval" }] } },
  ],
});
