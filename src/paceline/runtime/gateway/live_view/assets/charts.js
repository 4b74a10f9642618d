// Line charts in SVG. A chart is given times and values; it knows nothing of what they mean.

const SVG = "http://www.w3.org/2000/svg";
const HEIGHT = 150;
const MARGIN = { left: 58, right: 10, top: 8, bottom: 20 };
const MAX_GAP_S = 3; // a line is interrupted where no snapshot was taken for longer

/** The upper end of an axis from 0: a round number, or the next whole one. */
export function niceTop(value, isWhole) {
  if (!(value > 0)) return 1;
  if (isWhole && value <= 10) return Math.max(1, Math.ceil(value));
  const power = 10 ** Math.floor(Math.log10(value));
  const factors = isWhole ? [1, 2, 4, 6, 8, 10] : [1, 1.5, 2, 3, 4, 5, 6, 8, 10];
  return factors.map((factor) => factor * power).find((top) => top >= value * 0.999);
}

/** The path of a line: it is interrupted at values that are null and at gaps in time. */
export function linePath(times, values, x, y) {
  let path = "";
  let previous = null;
  for (let index = 0; index < times.length; index += 1) {
    const value = values[index];
    if (value === null || value === undefined) {
      previous = null;
      continue;
    }
    const begins = previous === null || times[index] - previous > MAX_GAP_S;
    const point = `${x(times[index]).toFixed(1)} ${y(value).toFixed(1)}`;
    path += begins ? `M${point}h0` : `L${point}`;
    previous = times[index];
  }
  return path;
}

function element(name, attributes, text) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function ticks(top, isWhole) {
  if (isWhole && top <= 10) {
    const step = top > 5 ? 2 : 1;
    return Array.from({ length: Math.floor(top / step) + 1 }, (_, index) => index * step);
  }
  return [0, top / 2, top];
}

/**
 * One chart. `definition`: title, lines ({name, class}), format(value), and optionally top (fixed
 * upper end) and isWhole. `onCursor(index or null)` is called when a reader moves the cursor.
 */
export class Chart {
  constructor(definition, onCursor) {
    this.definition = definition;
    this.figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const title = document.createElement("span");
    title.className = "title";
    title.textContent = definition.title;
    caption.append(title);
    this.legends = definition.lines.map((line) => {
      const legend = document.createElement("span");
      legend.className = `legend ${line.class}`;
      caption.append(legend);
      return legend;
    });
    this.plot = document.createElement("div");
    this.plot.className = "plot";
    this.plot.tabIndex = 0;
    this.plot.setAttribute("role", "img");
    this.figure.append(caption, this.plot);
    this.data = null; // nothing is drawn, and so nothing claimed, before the first data
    this.legends.forEach((legend, at) => (legend.textContent = definition.lines[at].name));
    this.plot.setAttribute("aria-label", `${definition.title}: no data yet`);
    this.cursor = null;
    this.onCursor = onCursor;
    this.plot.addEventListener("pointermove", (event) => this.followPointer(event));
    this.plot.addEventListener("pointerleave", () => onCursor(null));
    this.plot.addEventListener("blur", () => onCursor(null));
    this.plot.addEventListener("keydown", (event) => this.followKey(event));
    new ResizeObserver(() => this.draw()).observe(this.plot);
  }

  show(data, cursor) {
    this.data = data;
    this.cursor = cursor;
    this.draw();
  }

  draw() {
    if (this.data === null) return;
    const { times, values } = this.data;
    const { lines, format, isWhole } = this.definition;
    const width = this.plot.clientWidth || 320;
    const end = times.length ? times[times.length - 1] : 0;
    const start = end - 300;
    const known = values.flat().filter((value) => value !== null && value !== undefined);
    const top = this.definition.top ?? niceTop(Math.max(0, ...known), isWhole);
    const x = (time) =>
      MARGIN.left + ((time - start) / 300) * (width - MARGIN.left - MARGIN.right);
    const y = (value) =>
      HEIGHT - MARGIN.bottom - (value / top) * (HEIGHT - MARGIN.top - MARGIN.bottom);
    const svg = element("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, "aria-hidden": "true" });
    for (const tick of ticks(top, isWhole)) {
      const at = y(tick);
      svg.append(
        element("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: at, y2: at }),
        element("text", { x: MARGIN.left - 6, y: at + 4, "text-anchor": "end" }, format(tick)),
      );
    }
    for (const minutes of [5, 4, 3, 2, 1, 0]) {
      const label = minutes ? `−${minutes} min` : "now";
      const anchor = minutes === 5 ? "start" : minutes === 0 ? "end" : "middle";
      if (width < 420 && minutes % 2 === 0 && minutes !== 0) continue;
      const at = { x: x(end - minutes * 60), y: HEIGHT - 5, "text-anchor": anchor };
      svg.append(element("text", at, label));
    }
    if (known.length === 0) {
      const at = { class: "empty", x: width / 2, y: HEIGHT / 2, "text-anchor": "middle" };
      svg.append(element("text", at, this.definition.empty));
    }
    lines.forEach((line, index) => {
      const path = linePath(times, values[index], x, y);
      if (path) svg.append(element("path", { class: `line ${line.class}`, d: path }));
    });
    if (this.cursor !== null && times[this.cursor] !== undefined) {
      const at = x(times[this.cursor]);
      svg.append(
        element("line", {
          class: "cursor", x1: at, x2: at, y1: MARGIN.top, y2: HEIGHT - MARGIN.bottom,
        }),
      );
    }
    this.plot.replaceChildren(svg);
    this.writeLegends();
  }

  writeLegends() {
    const { times, values } = this.data;
    const index = this.cursor ?? times.length - 1;
    const shown = this.definition.lines.map((line, at) => {
      const value = values[at][index];
      const text = value === null || value === undefined ? "–" : this.definition.format(value);
      const said = `${line.name} ${text}`;
      if (this.legends[at].textContent !== said) this.legends[at].textContent = said;
      return said;
    });
    const end = times[times.length - 1];
    const ago = this.cursor === null || !times.length ? "now" : `${Math.round(end - times[index])} s ago`;
    this.plot.setAttribute("aria-label", `${this.definition.title}, ${ago}: ${shown.join(", ")}`);
  }

  followPointer(event) {
    const times = this.data?.times ?? [];
    if (!times.length) return;
    const box = this.plot.getBoundingClientRect();
    const share = (event.clientX - box.left - MARGIN.left) / (box.width - MARGIN.left - MARGIN.right);
    const time = times[times.length - 1] - 300 * (1 - share);
    let nearest = 0;
    for (let index = 0; index < times.length; index += 1) {
      if (Math.abs(times[index] - time) < Math.abs(times[nearest] - time)) nearest = index;
    }
    this.onCursor(nearest);
  }

  followKey(event) {
    const last = (this.data?.times.length ?? 0) - 1;
    const now = this.cursor ?? last;
    const step = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: now - step, ArrowRight: now + step, Home: 0, End: last };
    if (event.key === "Escape") this.onCursor(null);
    else if (event.key in moves && last >= 0) this.onCursor(Math.min(last, Math.max(0, moves[event.key])));
    else return;
    event.preventDefault();
  }
}
