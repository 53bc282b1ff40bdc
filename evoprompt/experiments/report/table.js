// Tables with search, filters, sorting and pages. Texts come in as text nodes and never as markup.

const element = (name, properties = {}, ...children) => {
  const { dataset, role, ...others } = properties;
  const made = Object.assign(document.createElement(name), others);
  if (role) made.setAttribute("role", role);
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
};

// Controls, directions and halves of pairs as escapes, so that a text cannot look like another.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]|\p{Cs}/gu;
const visible = (text) =>
  String(text).replace(HIDDEN, (mark) => "\\u" + mark.codePointAt(0).toString(16).padStart(4, "0"));
const shorter = (text, most = 160) => (text.length > most ? text.slice(0, most) + "…" : text);
const number = (value, digits = 3) =>
  value === null || value === undefined ? "" : Number.isInteger(value) ? value.toLocaleString("en") : value.toFixed(digits);

const PAGE = 25;

// Hands a file to whoever reads the page; nothing leaves this machine.
const save = (name, content) => {
  const link = element("a", { download: name, href: typeof content === "string" ? content : URL.createObjectURL(content) });
  link.click();
  if (typeof content !== "string") setTimeout(() => URL.revokeObjectURL(link.href), 1000);
};
// Quoted, and with a leading apostrophe where a spreadsheet would take the text for a formula.
const csv = (name, rows) => {
  const cell = (value) => (typeof value === "number" ? value : `"${visible(value ?? "").replace(/^[=+@-]/, "'$&").replaceAll('"', '""')}"`);
  save(`${name}.csv`, new Blob([rows.map((row) => row.map(cell).join(",") + "\r\n").join("")], { type: "text/csv" }));
};
const pushed = (label, action) => {
  const button = element("button", { type: "button" }, label);
  button.addEventListener("click", action);
  return button;
};

// columns: {label, value(row), kind: "number" | "words" | "short", filter: bool, show(row) -> Node or text}
class Table {
  constructor(host, title, columns) {
    Object.assign(this, { columns, rows: [], page: 0, sorted: null, down: false, chosen: new Map() });
    this.name = title;
    this.search = element("input", { type: "search" });
    const tools = element("div", { className: "tools" }, element("label", {}, "Search ", this.search));
    this.selects = columns.filter((column) => column.filter).map((column) => {
      const select = element("select");
      select.addEventListener("change", () => (this.chosen.set(column, select.value), this.first()));
      tools.append(element("label", {}, column.label + " ", select));
      return [column, select];
    });
    this.search.addEventListener("input", () => this.first());
    tools.append(pushed("CSV", () => csv(title, [columns.map((one) => one.label), ...this.found().map((row) => columns.map((one) => one.value(row)))])));
    this.caption = element("caption", {});
    this.head = columns.map((column) => {
      const button = element("button", { type: "button" }, column.label);
      button.addEventListener("click", () => this.sort(column));
      return element("th", { scope: "col", className: column.kind === "number" ? "" : "words" }, button);
    });
    this.body = element("tbody");
    const table = element("table", {}, this.caption, element("thead", {}, element("tr", {}, ...this.head)), this.body);
    const wide = element("div", { className: "wide", tabIndex: 0, role: "region" }, table);
    wide.setAttribute("aria-label", title);
    this.before = pushed("Previous", () => this.turn(-1));
    this.after = pushed("Next", () => this.turn(1));
    this.pager = element("div", { className: "tools" }, this.before, this.after);
    this.summary = element("summary");
    this.details = element("details", { open: true }, this.summary, tools, wide, this.pager);
    host.append(this.details);
  }

  set(rows) {
    this.rows = rows;
    this.details.hidden = rows.length === 0;
    for (const [column, select] of this.selects) {
      const values = [...new Set(rows.map((row) => column.value(row)))].sort();
      select.replaceChildren(element("option", { value: "" }, "all"), ...values.map((one) => element("option", { value: one }, visible(one) || "none")));
      select.value = values.includes(this.chosen.get(column)) ? this.chosen.get(column) : "";
      this.chosen.set(column, select.value);
    }
    this.draw();
  }

  sort(column) {
    this.down = this.sorted === column ? !this.down : column.kind === "number";
    this.sorted = column;
    this.first();
  }

  first() {
    this.page = 0;
    this.draw();
  }

  turn(by) {
    this.page += by;
    this.draw();
  }

  found() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = this.rows.filter((row) => {
      if (this.selects.some(([column, select]) => select.value && column.value(row) !== select.value)) return false;
      if (!words.length) return true;
      const text = this.columns.map((column) => column.value(row) ?? "").join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    if (!this.sorted) return rows;
    const { value } = this.sorted;
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
    return rows.sort((one, other) => {
      const [a, b] = [value(one), value(other)];
      if (a === null || b === null) return (a === null) - (b === null); // what was not measured comes last
      return this.down ? order(b, a) : order(a, b);
    });
  }

  draw() {
    const rows = this.found();
    this.page = Math.max(0, Math.min(this.page, Math.ceil(rows.length / PAGE) - 1));
    const from = this.page * PAGE;
    const shown = rows.slice(from, from + PAGE);
    this.summary.textContent = `${this.name} (${this.rows.length.toLocaleString("en")})`;
    this.caption.textContent = rows.length
      ? `${from + 1} to ${from + shown.length} of ${rows.length.toLocaleString("en")}`
      : "No row matches.";
    this.before.disabled = this.page === 0;
    this.after.disabled = from + PAGE >= rows.length;
    this.pager.hidden = rows.length <= PAGE;
    this.columns.forEach((column, at) => {
      const direction = this.sorted !== column ? "none" : this.down ? "descending" : "ascending";
      this.head[at].setAttribute("aria-sort", direction);
    });
    this.body.replaceChildren(
      ...shown.map((row) =>
        element("tr", {}, ...this.columns.map((column) => {
          const content = column.show ? column.show(row) : column.kind === "number" ? number(column.value(row)) : visible(column.value(row));
          const cell = element("td", { className: { words: "words", short: "words short" }[column.kind] ?? "" }, content);
          if (column.kind === "words") cell.dir = "auto";
          return cell;
        }))
      )
    );
  }
}
