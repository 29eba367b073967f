"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  function bytes(text) {
    const raw = atob(text), out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out.buffer;
  }

  // All text from the data enters the page here, as text and never as markup.
  function element(tag, attributes = {}, ...children) {
    const node = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name === "text") node.textContent = value;
      else if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else node.setAttribute(name, value);
    }
    node.append(...children);
    return node;
  }

  // Text with enough digits to distinguish numbers a step apart.
  function upTo(value, step, most = Math.abs(value)) {
    const decimals = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
    if (most < 1e11 && decimals < 8) return value.toFixed(decimals);
    return value === 0 ? "0" : value.toExponential(Math.min(15, Math.max(0, Math.floor(Math.log10(most)) - Math.floor(Math.log10(step) + 1e-9))));
  }
  const spaced = (count) => String(count).replace(/\B(?=(\d{3})+(?!\d))/g, "\u202f");

  // Rows ------------------------------------------------------------------------------------------------------------
  const rows = new Uint32Array(bytes(data.rows));
  const n = rows.length, D = data.columns.length, C = data.colours.length;
  const values = new Float32Array(bytes(data.values)), masses = new Uint16Array(bytes(data.masses));
  const M = masses.length / n; // focal sets; `data.sets` has other sets that the rule chooses after them
  const isOutlier = new Uint8Array(bytes(data.outliers));
  const offset = (column, i) => values[column * n + i] * data.units[column]; // from the middle of all rows
  const mass = (j, i) => masses[j * n + i] / 65535;
  const members = data.sets.map((set) => set.members);

  const chosenSet = new Uint16Array(bytes(data.chosen)), topMass = new Float32Array(n), doubt = new Float32Array(n);
  for (let i = 0; i < n; i++) {
    const pignistic = new Float64Array(C);
    for (let j = 0; j < M; j++) {
      const m = mass(j, i);
      topMass[i] = Math.max(topMass[i], m);
      for (const k of members[j]) pignistic[k] += m / members[j].length;
    }
    doubt[i] = 1 - Math.max(...pignistic);
  }

  // Colours ---------------------------------------------------------------------------------------------------------
  const channels = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  // Black is invisible on a dark page.
  const clusterColour = (k) => (isDark() && data.colours[k] === "#000000" ? "#ffffff" : data.colours[k]);
  const classAt = data.classes ? new Map(data.classNames.map((name, at) => [name, at])) : null;
  const classColour = (i) => data.classColours[classAt.get(data.classes[i])] ?? "#8a8a8a";
  function setColour(j) {
    if (!members[j].length) return "#8a8a8a";
    const mixed = [0, 1, 2].map((c) => members[j].reduce((sum, k) => sum + channels(clusterColour(k))[c], 0) / members[j].length);
    return `rgb(${mixed.map(Math.round).join(",")})`;
  }
  const swatch = (j) => {
    const node = element("span", { class: members[j].length > 1 ? "swatch meta" : "swatch", "aria-hidden": "true" });
    node.style.background = setColour(j);
    return node;
  };

  // State -----------------------------------------------------------------------------------------------------------
  const state = { x: 0, y: 0, threshold: 0, lower: false, upper: false, ellipses: true, outliers: true,
                  hidden: new Set(), chosen: -1, box: null, scale: 1 };
  const largestDoubt = 1 - 1 / C;
  const projections = data.axes.length > D;
  data.axes.push({ name: "doubt", d: null });
  if (projections) {
    const best = C > 1 ? " Discriminants are the directions that best separate the clusters, in within-cluster standard deviations." : "";
    $("scatter-help").append(`${best} Principal components are the directions of most variance.`);
  }
  state.x = projections ? D : 0;
  state.y = projections ? D + 1 : 1;

  const coordinates = new Map();
  function positions(axis) {
    if (data.axes[axis].d === null) return doubt;
    if (coordinates.has(axis)) return coordinates.get(axis);
    const { d, o } = data.axes[axis], out = new Float64Array(n);
    for (let column = 0; column < D; column++) {
      if (d[column] !== 0) for (let i = 0; i < n; i++) out[i] += d[column] * offset(column, i);
    }
    for (let i = 0; i < n; i++) out[i] += o;
    coordinates.set(axis, out);
    return out;
  }
  const along = (axis, point) => data.axes[axis].d === null ? 0 : data.axes[axis].d.reduce((sum, part, k) => sum + part * point[k], data.axes[axis].o);
  function spread(a, b, covariance) {
    const u = data.axes[a].d, v = data.axes[b].d;
    let sum = 0;
    for (let p = 0; p < D; p++) if (u[p] !== 0) for (let q = 0; q < D; q++) if (v[q] !== 0) sum += u[p] * covariance[p][q] * v[q];
    return sum;
  }

  // Scatter ---------------------------------------------------------------------------------------------------------
  const canvas = $("scatter"), context = canvas.getContext("2d");
  const margin = { left: 54, right: 12, top: 12, bottom: 42 };
  let width = 0, height = 0, screenX = new Float32Array(n), screenY = new Float32Array(n), order = [];

  function extent(list) {
    let low = Infinity, high = -Infinity;
    for (const item of list) { if (item < low) low = item; if (item > high) high = item; }
    const pad = (high - low || 1) * 0.05;
    return [low - pad, high + pad];
  }
  // Rows, and the clusters with their ellipses.
  const everything = (axis) => [...positions(axis), ...data.means.flatMap((mean, k) => {
    const at = along(axis, mean), covariance = data.covariances[data.covariances.length > 1 ? k : 0];
    const reach = data.axes[axis].d === null ? 0 : 2 * Math.sqrt(Math.max(spread(axis, axis, covariance), 0));
    return [at - reach, at + reach];
  })];
  function fitBox() {
    const [x0, x1] = extent(everything(state.x)), [y0, y1] = extent(everything(state.y));
    state.box = { x0, x1, y0, y1 };
    state.scale = 1;
  }
  const isPart = () => state.scale < 0.99;
  const toX = (v) => margin.left + ((v - state.box.x0) / (state.box.x1 - state.box.x0)) * (width - margin.left - margin.right);
  const toY = (v) => height - margin.bottom - ((v - state.box.y0) / (state.box.y1 - state.box.y0)) * (height - margin.top - margin.bottom);

  const AXIS_FONT = "12px system-ui, sans-serif";
  const ticksUp = () => ticks(state.box.y0, state.box.y1, Math.max(3, height / 80));

  // Places of ticks and their texts.
  function ticks(low, high, most) {
    const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 5, 10].map((f) => f * power).find((s) => s >= raw);
    const first = Math.ceil(low / step) * step, out = [];
    for (let k = 0; k <= (high - first) / step + 1e-9; k++) out.push(Math.abs(first + k * step) < step * 1e-9 ? 0 : first + k * step);
    const largest = Math.max(...out.map(Math.abs));
    return out.map((t) => [t, upTo(t, step, largest)]);
  }

  // As many ticks as fit.
  function ticksAcross() {
    let count = Math.max(3, width / 75), marks;
    const room = () => (width - margin.left - margin.right) / (Math.max(...marks.map(([, text]) => context.measureText(text).width)) + 14);
    do marks = ticks(state.box.x0, state.box.x1, count); while (marks.length > room() && (count *= 0.7) > 1);
    return marks;
  }

  function drawAxes() {
    context.font = AXIS_FONT;
    context.strokeStyle = css("--line");
    context.fillStyle = css("--soft");
    context.lineWidth = 1;
    context.textAlign = "center";
    context.textBaseline = "top";
    for (const [t, text] of ticksAcross()) {
      line([[toX(t), margin.top], [toX(t), height - margin.bottom]]);
      context.fillText(text, toX(t), height - margin.bottom + 6);
    }
    context.textAlign = "right";
    context.textBaseline = "middle";
    for (const [t, text] of ticksUp()) {
      line([[margin.left, toY(t)], [width - margin.right, toY(t)]]);
      context.fillText(text, margin.left - 6, toY(t));
    }
    context.fillStyle = css("--ink");
    context.textAlign = "center";
    context.fillText(short(data.axes[state.x].name), (margin.left + width - margin.right) / 2, height - 10);
    context.save();
    context.translate(11, (height - margin.bottom) / 2);
    context.rotate(-Math.PI / 2);
    context.fillText(short(data.axes[state.y].name), 0, 0);
    context.restore();
  }
  const short = (text, most = 48) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

  function line(points, closed = false) {
    context.beginPath();
    points.forEach(([x, y], at) => (at ? context.lineTo(x, y) : context.moveTo(x, y)));
    if (closed) context.closePath();
    context.stroke();
  }

  function mark(x, y, size, isMeta) {
    context.beginPath();
    if (isMeta) {
      context.moveTo(x, y - 1.35 * size);
      context.lineTo(x + 1.25 * size, y + size);
      context.lineTo(x - 1.25 * size, y + size);
      context.closePath();
    } else context.arc(x, y, size, 0, 2 * Math.PI);
    context.fill();
  }

  function drawRows() {
    const px = positions(state.x), py = positions(state.y);
    const limit = (state.threshold / 100) * largestDoubt - 2e-5;
    const size = n > 8000 ? 1.3 : n > 2000 ? 2 : n > 300 ? 3 : 4.5;
    for (let i = 0; i < n; i++) { screenX[i] = toX(px[i]); screenY[i] = toY(py[i]); }
    const colours = data.sets.map((_, j) => setColour(j));
    const paint = (i, colour, alpha, scale) => {
      context.globalAlpha = alpha;
      context.fillStyle = colour;
      const isMeta = members[chosenSet[i]].length > 1;
      if (size < 1.5 && !isMeta) context.fillRect(screenX[i] - size, screenY[i] - size, 2 * size, 2 * size);
      else mark(screenX[i], screenY[i], size * scale, isMeta);
    };
    const faded = css("--faded");
    let drawn = 0;
    for (const i of order) {
      if (state.hidden.has(chosenSet[i])) continue;
      if (doubt[i] < limit) paint(i, faded, 0.35, 0.7);
      else { paint(i, state.byClass ? classColour(i) : colours[chosenSet[i]], 0.25 + 0.75 * topMass[i], 1); drawn++; }
    }
    context.globalAlpha = 1;
    if (state.outliers) {
      context.strokeStyle = css("--ink");
      context.lineWidth = 1.2;
      for (let i = 0; i < n; i++) {
        if (!isOutlier[i] || state.hidden.has(chosenSet[i])) continue;
        context.beginPath();
        context.arc(screenX[i], screenY[i], size + 4, 0, 2 * Math.PI);
        context.stroke();
      }
    }
    canvas.dataset.drawn = drawn;
  }

  function hull(points) {
    const sorted = points.slice().sort((a, b) => a[0] - b[0] || a[1] - b[1]);
    const half = (list) => {
      const out = [];
      for (const p of list) {
        while (out.length > 1) {
          const [a, b] = [out[out.length - 2], out[out.length - 1]];
          if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) > 0) break;
          out.pop();
        }
        out.push(p);
      }
      return out.slice(0, -1);
    };
    return sorted.length < 3 ? sorted : [...half(sorted), ...half(sorted.slice().reverse())];
  }

  function drawHulls(isUpper) {
    for (let k = 0; k < C; k++) {
      const points = [];
      for (let i = 0; i < n; i++) {
        const chosen = members[chosenSet[i]];
        if (chosen.includes(k) && (isUpper || chosen.length === 1)) points.push([screenX[i], screenY[i]]);
      }
      if (!points.length) continue;
      context.strokeStyle = clusterColour(k);
      context.lineWidth = 2;
      context.setLineDash(isUpper ? [7, 5] : []);
      const outline = hull(points);
      line(outline, true);
      context.globalAlpha = 0.06;
      context.fillStyle = clusterColour(k);
      context.fill();
      context.globalAlpha = 1;
      context.setLineDash([]);
    }
  }

  function drawClusters() {
    for (let k = 0; k < C; k++) {
      const covariance = data.covariances[data.covariances.length > 1 ? k : 0];
      const cx = along(state.x, data.means[k]), cy = along(state.y, data.means[k]);
      if (state.ellipses && data.axes[state.x].d !== null && data.axes[state.y].d !== null && state.x !== state.y) {
        const a = spread(state.x, state.x, covariance), b = spread(state.x, state.y, covariance), c = spread(state.y, state.y, covariance);
        const root = Math.sqrt(Math.max(a, 1e-300)), down = b / root, rest = Math.sqrt(Math.max(c - down * down, 0));
        const curve = [];
        for (let t = 0; t <= 72; t++) {
          const u = 2 * Math.cos((t / 72) * 2 * Math.PI), v = 2 * Math.sin((t / 72) * 2 * Math.PI);
          curve.push([toX(cx + root * u), toY(cy + down * u + rest * v)]);
        }
        // With a rim, to be visible among rows of the same colour.
        for (const [colour, thick] of [[css("--panel"), 4], [clusterColour(k), 1.8]]) {
          context.strokeStyle = colour;
          context.lineWidth = thick;
          line(curve, true);
        }
      }
      const x = toX(cx), y = toY(cy);
      for (const [colour, thick] of [[css("--panel"), 8], [css("--ink"), 5], [clusterColour(k), 2.5]]) {
        context.strokeStyle = colour;
        context.lineWidth = thick;
        line([[x - 6, y - 6], [x + 6, y + 6]]);
        line([[x - 6, y + 6], [x + 6, y - 6]]);
      }
      context.font = "bold 13px system-ui, sans-serif";
      context.textAlign = "left";
      context.lineWidth = 4;
      context.strokeStyle = css("--panel");
      context.strokeText(String(k + 1), x + 10, y - 10);
      context.fillStyle = css("--ink");
      context.fillText(String(k + 1), x + 10, y - 10);
    }
  }

  function draw() {
    const ratio = window.devicePixelRatio || 1;
    width = canvas.clientWidth;
    height = canvas.clientHeight;
    // A finger moves the plot when zoomed in, otherwise the page.
    canvas.style.touchAction = isPart() ? "pinch-zoom" : "pan-y pinch-zoom";
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    context.font = AXIS_FONT;
    margin.left = Math.max(54, 26 + Math.max(...ticksUp().map(([, text]) => context.measureText(text).width)));
    drawAxes();
    context.save();
    context.beginPath();
    context.rect(margin.left, margin.top, width - margin.left - margin.right, height - margin.top - margin.bottom);
    context.clip();
    drawRows();
    if (state.lower) drawHulls(false);
    if (state.upper) drawHulls(true);
    drawClusters();
    if (state.chosen >= 0) {
      context.strokeStyle = css("--accent");
      context.lineWidth = 3;
      context.beginPath();
      context.arc(screenX[state.chosen], screenY[state.chosen], 10, 0, 2 * Math.PI);
      context.stroke();
    }
    context.restore();
  }
  let queued = false;
  function redraw() {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => { queued = false; draw(); });
  }

  // A thousandth of the range, and at least four digits, since an outlier may dominate the range.
  const steps = data.columns.map((_, column) => {
    const [low, high] = extent(values.subarray(column * n, (column + 1) * n));
    return (high - low) / 1000 * data.units[column];
  });
  function shownValue(column, away) {
    const value = data.centre[column] + away, text = upTo(value, Math.min(steps[column], Math.abs(value) / 1000 || Infinity));
    return text.replace(/(\.\d*?)0+(?=e|$)/, "$1").replace(/\.(?=e|$)/, "");
  }

  // One object ------------------------------------------------------------------------------------------------------
  function choose(i) {
    state.chosen = i;
    if (i < 0) return redraw();
    const box = $("object");
    const facts = element("dl");
    for (let column = 0; column < Math.min(D, 12); column++) {
      facts.append(element("dt", { text: data.columns[column] }), element("dd", { text: shownValue(column, offset(column, i)) }));
    }
    if (D > 12) facts.append(element("dt", { text: "…" }), element("dd", { text: `${D - 12} more columns` }));
    const bars = [...Array(M).keys()].filter((j) => mass(j, i) >= 0.0005).sort((a, b) => mass(b, i) - mass(a, i)).slice(0, 10);
    const list = element("div", { class: "masses" });
    for (const j of bars) {
      const fill = element("span");
      fill.style.width = `${100 * mass(j, i)}%`;
      fill.style.background = setColour(j);
      list.append(element("div", { class: "mass" }, element("span", { text: data.sets[j].label }),
        element("span", { class: "track" }, fill), element("span", { class: "value", text: mass(j, i).toFixed(3) })));
    }
    const kind = isOutlier[i] ? "outlier; " : "";
    box.replaceChildren(element("strong", { text: `Row ${rows[i] + 1}${data.names ? ` · ${data.names[i]}` : ""}` }),
      element("span", { class: "note", text: `  ${data.classes && data.classes[i] ? `${data.classes[i]}; ` : ""}${kind}doubt ${doubt[i].toFixed(3)}` }), list, facts);
    for (const line of document.querySelectorAll("#objects-table tr.chosen")) line.classList.remove("chosen");
    const listed = document.querySelector(`#objects-table tr[data-at="${i}"]`);
    if (listed) listed.classList.add("chosen");
    redraw();
  }

  function nearest(event) {
    const bounds = canvas.getBoundingClientRect(), x = event.clientX - bounds.left, y = event.clientY - bounds.top;
    let best = -1, least = 18 * 18;
    for (let i = 0; i < n; i++) {
      if (state.hidden.has(chosenSet[i])) continue;
      const distance = (screenX[i] - x) ** 2 + (screenY[i] - y) ** 2;
      if (distance < least) { least = distance; best = i; }
    }
    return best;
  }

  let drag = null;
  canvas.addEventListener("pointerdown", (event) => {
    if (!event.isPrimary) return;
    drag = { x: event.clientX, y: event.clientY, box: { ...state.box }, moved: false };
    canvas.setPointerCapture(event.pointerId);
  });
  canvas.addEventListener("pointermove", (event) => {
    if (drag && event.buttons && (event.pointerType === "mouse" || isPart())) {
      const dx = event.clientX - drag.x, dy = event.clientY - drag.y;
      if (Math.abs(dx) + Math.abs(dy) > 4) drag.moved = true;
      const sx = ((drag.box.x1 - drag.box.x0) * dx) / (width - margin.left - margin.right);
      const sy = ((drag.box.y1 - drag.box.y0) * dy) / (height - margin.top - margin.bottom);
      state.box = { x0: drag.box.x0 - sx, x1: drag.box.x1 - sx, y0: drag.box.y0 + sy, y1: drag.box.y1 + sy };
      return redraw();
    }
    const i = nearest(event);
    if (i >= 0 && i !== state.chosen) choose(i);
  });
  canvas.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) { const i = nearest(event); if (i >= 0) choose(i); }
    drag = null;
  });
  canvas.addEventListener("pointercancel", () => { drag = null; });

  function zoom(factor) {
    const { x0, x1, y0, y1 } = state.box, cx = (x0 + x1) / 2, cy = (y0 + y1) / 2;
    state.scale *= factor;
    state.box = { x0: cx + (x0 - cx) * factor, x1: cx + (x1 - cx) * factor, y0: cy + (y0 - cy) * factor, y1: cy + (y1 - cy) * factor };
    redraw();
  }
  $("zoom-in").addEventListener("click", () => zoom(1 / 1.5));
  $("zoom-out").addEventListener("click", () => zoom(1.5));
  $("zoom-reset").addEventListener("click", () => { fitBox(); redraw(); });

  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (step) choose((state.chosen + step + n) % n);
    else if (event.key === "+" || event.key === "=") zoom(1 / 1.5);
    else if (event.key === "-") zoom(1.5);
    else if (event.key === "0") { fitBox(); redraw(); }
    else return;
    event.preventDefault();
  });

  // Controls --------------------------------------------------------------------------------------------------------
  for (const which of ["x", "y"]) {
    const select = $(`axis-${which}`);
    data.axes.forEach((axis, at) => select.append(element("option", { value: at, text: axis.name })));
    select.value = state[which];
    select.addEventListener("change", () => { state[which] = +select.value; fitBox(); redraw(); });
  }
  const toggles = { lower: "show-lower", upper: "show-upper", ellipses: "show-ellipses", outliers: "show-outliers" };
  for (const [name, id] of Object.entries(toggles)) {
    $(id).checked = state[name];
    $(id).addEventListener("change", () => { state[name] = $(id).checked; redraw(); });
  }
  if (data.classes) {
    $("colour-by-label").hidden = false;
    $("colour-by").addEventListener("change", () => { state.byClass = $("colour-by").value === "class"; showLegend(); redraw(); });
  }
  function showThreshold() {
    state.threshold = +$("threshold").value;
    const count = data.doubtfulRows[state.threshold], share = ((100 * count) / data.nRows).toFixed(1);
    const at = ((state.threshold / 100) * largestDoubt).toFixed(2);
    $("threshold-text").textContent = `${at}: ${spaced(count)} rows (${share} %)`;
    redraw();
  }
  $("threshold").addEventListener("input", showThreshold);

  function showLegend() {
    if (state.byClass) {
      $("legend").replaceChildren(...data.classNames.map((name, at) => {
        const dot = element("span", { class: "swatch" });
        dot.style.background = data.classColours[at];
        return element("span", { class: "entry" }, dot, element("span", { text: name }));
      }));
      return;
    }
    const shown = data.sets.map((set, j) => [set, j]).filter(([set]) => set.rows > 0).sort((a, b) => a[0].members.length - b[0].members.length || a[1] - b[1]);
    $("legend").replaceChildren(...shown.map(([set, j]) => element("button", {
      type: "button", "aria-pressed": String(!state.hidden.has(j)),
      onclick: (event) => {
        if (state.hidden.has(j)) state.hidden.delete(j); else state.hidden.add(j);
        event.currentTarget.setAttribute("aria-pressed", String(!state.hidden.has(j)));
        redraw();
      },
    }, swatch(j), element("span", { text: `${set.label} ${spaced(set.rows)}` }))));
  }

  // Tables ----------------------------------------------------------------------------------------------------------
  // A column has a name, a value to sort by, and optionally text or a node to show.
  function table(node, columns, records, onChoose) {
    let sorted = { column: -1, down: false };
    const head = element("tr"), body = element("tbody");
    const fill = () => body.replaceChildren(...records.map((record) => {
      const line = element("tr", {}, ...columns.map((column) => {
        const cell = element("td", column.text ? { class: column.whole ? "text whole" : "text" } : {});
        cell.append(column.show ? column.show(record) : String(column.value(record)));
        return cell;
      }));
      if (onChoose) {
        line.className = "link";
        line.tabIndex = 0;
        line.dataset.at = record.at;
        line.addEventListener("click", () => onChoose(record));
        line.addEventListener("keydown", (event) => { if (event.key === "Enter") onChoose(record); });
      }
      return line;
    }));
    columns.forEach((column, at) => {
      const cell = element("th", { scope: "col", "aria-sort": "none", ...(column.text ? { class: "text" } : {}) },
        element("button", { type: "button", title: column.name, text: column.name, onclick: () => {
          sorted = { column: at, down: sorted.column === at ? !sorted.down : typeof column.value(records[0] ?? {}) === "number" };
          records.sort((a, b) => {
            const [u, v] = [column.value(a), column.value(b)];
            const by = typeof u === "number" ? u - v : String(u).localeCompare(String(v), undefined, { numeric: true });
            return sorted.down ? -by : by;
          });
          [...head.children].forEach((other, k) => other.setAttribute("aria-sort", k !== at ? "none" : sorted.down ? "descending" : "ascending"));
          fill();
        } }));
      head.append(cell);
    });
    fill();
    node.replaceChildren(element("thead", {}, head), body);
  }

  function showSets() {
    const widest = Math.max(...data.sets.map((set) => set.mass), 1e-9);
    const records = data.sets.map((set, j) => ({ ...set, j })).sort((a, b) => a.members.length - b.members.length || a.j - b.j);
    table($("sets-table"), [
      { name: "set", value: (r) => r.label, show: (r) => { const box = element("span"); box.append(swatch(r.j), r.label); return box; } },
      { name: "clusters", value: (r) => r.members.length },
      { name: "rows", value: (r) => r.rows, show: (r) => spaced(r.rows) },
      { name: "share", value: (r) => r.rows / data.nRows, show: (r) => `${((100 * r.rows) / data.nRows).toFixed(1)} %` },
      // A consensus of models has no mixing weights.
      ...(data.sets.every((r) => r.weight !== null)
        ? [{ name: "mixing weight", value: (r) => r.weight, show: (r) => r.weight.toFixed(4) }]
        : []),
      { name: "mean mass", text: true, whole: true, value: (r) => r.mass, show: (r) => {
        const box = element("span", { text: r.mass.toFixed(4) }), bar = element("span", { class: "bar-cell" });
        bar.style.width = `${(90 * r.mass) / widest}px`;
        box.append(bar);
        return box;
      } },
    ], records);
  }

  const fewColumns = [...Array(Math.min(D, 6)).keys()];
  function showObjects() {
    table($("objects-table"), [
      { name: "row", value: (r) => r.row + 1, show: (r) => String(r.row + 1) },
      ...(data.names ? [{ name: "name", text: true, whole: true, value: (r) => data.names[r.at] }] : []),
      ...(data.classes ? [{ name: "class", text: true, whole: true, value: (r) => data.classes[r.at] }] : []),
      { name: "doubt", value: (r) => r.doubt, show: (r) => r.doubt.toFixed(3) },
      { name: "set", value: (r) => r.set },
      { name: "best cluster", value: (r) => r.cluster },
      { name: "nonspecificity (bits)", value: (r) => r.bits, show: (r) => r.bits.toFixed(3) },
      { name: "outlier", value: (r) => (r.outlier ? "yes" : "") },
      ...fewColumns.map((column) => ({ name: data.columns[column], value: (r) => offset(column, r.at), show: (r) => shownValue(column, offset(column, r.at)) })),
    ], data.objects.slice(), (record) => {
      choose(record.at);
      canvas.scrollIntoView({ block: "center", behavior: "smooth" });
    });
  }

  function showParameters() {
    const some = [...Array(Math.min(D, 24)).keys()];
    table($("means-table"), [
      { name: "cluster mean", value: (r) => r.k + 1, show: (r) => String(r.k + 1) },
      ...some.map((column) => ({ name: data.columns[column], value: (r) => r.mean[column], show: (r) => shownValue(column, r.mean[column]) })),
    ], data.means.map((mean, k) => ({ mean, k })));
    table($("parameters-table"), [
      { name: "parameter", text: true, value: (r) => r[0] },
      { name: "value", text: true, value: (r) => r[1] },
    ], data.parameters.slice());
  }

  // Curves ----------------------------------------------------------------------------------------------------------
  const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];
  const DASHES = ["none", "8 4", "2 3", "10 3 2 3", "5 2", "1 4"];
  const LETTER = 13; // height of a line's name

  function svg(tag, attributes, text) {
    const part = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [name, v] of Object.entries(attributes)) part.setAttribute(name, v);
    if (text !== undefined) part.textContent = text;
    return part;
  }

  // Heights of names at the ends of lines, in the same order without overlap.
  function apart(heights, low, high) {
    const order = [...heights.keys()].sort((a, b) => heights[a] - heights[b]), out = heights.slice();
    const down = () => order.forEach((at, k) => { out[at] = Math.max(out[at], k ? out[order[k - 1]] + LETTER : low); });
    down();
    // Balanced up and down, within the picture.
    const shift = out.reduce((sum, height, at) => sum + height - heights[at], 0) / out.length;
    out.forEach((height, at) => { out[at] = Math.min(height - shift, high - LETTER * (order.length - 1 - order.indexOf(at))); });
    down();
    return out;
  }

  // Drawn in page pixels, so that text keeps its size on a phone.
  function chart(node, xs, series, xName, yName, best, hollow = []) {
    const lines = series.filter((item) => item.values.some((v) => v !== null));
    if (!lines.length) return;
    const named = lines.length > 1, few = lines.length <= PALETTE.length;
    const [y0, y1] = extent(lines.flatMap((item) => item.values).filter((v) => v !== null)), marks = ticks(y0, y1, 5);
    const L = Math.max(66, 14 + 7.5 * Math.max(...marks.map(([, text]) => text.length)));
    const W = Math.min(640, node.clientWidth), H = 300, R = named ? 64 : 14, T = 30, B = 44;
    const [x0, x1] = xs.length > 1 ? [xs[0], xs[xs.length - 1]] : [xs[0] - 1, xs[0] + 1];
    const X = (v) => L + ((v - x0) / (x1 - x0)) * (W - L - R - 12) + 6, Y = (v) => H - B - ((v - y0) / (y1 - y0)) * (H - T - B);
    const picture = svg("svg", { viewBox: `0 0 ${W} ${H}`, width: W, height: H, role: named ? "group" : "img", "aria-label": `${yName} against ${xName}` });
    for (const [t, text] of marks) {
      picture.append(svg("line", { class: "grid", x1: L, x2: W - R, y1: Y(t), y2: Y(t) }), svg("text", { x: L - 6, y: Y(t) + 4, "text-anchor": "end" }, text));
    }
    for (const [t] of ticks(x0, x1, Math.min(W / 60, 8, Math.max(2, xs.length - 1))).filter(([t]) => Number.isInteger(t))) {
      picture.append(svg("text", { x: X(t), y: H - B + 18, "text-anchor": "middle" }, String(t)));
    }
    picture.append(svg("text", { x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle" }, xName), svg("text", { x: 2, y: 14 }, yName));

    const isBest = (x, item) => best && best[1] === item.name && (x === undefined || best[0] === x);
    const isHollow = (x, item) => hollow.some(([count, name]) => count === x && name === item.name);
    const said = element("p", { class: "note", "aria-live": "polite", text: "Point at a line or its name for its values." });
    const told = (item, x, v) => `${item.name}, ${xName} ${x}: ${upTo(v, Math.min(1, (y1 - y0) / 1000))}${isHollow(x, item) ? " (degenerate)" : ""}`;
    const knowns = lines.map((item) => xs.map((x, k) => [x, item.values[k]]).filter(([, v]) => v !== null));
    const ends = knowns.map((known) => known[known.length - 1]);
    const heights = apart(ends.map(([, v]) => Y(v)), T, H - 8);
    const groups = lines.map((item, at) => {
      const group = svg("g", { class: isBest(undefined, item) ? "series best" : "series" });
      // With more lines than colours, the chosen one stands out against grey; pointing highlights another.
      group.style.setProperty("--own", few ? PALETTE[at] : isBest(undefined, item) ? "var(--accent)" : "var(--quiet)");
      group.append(svg("polyline", { points: knowns[at].map(([x, v]) => `${X(x)},${Y(v)}`).join(" "), "stroke-dasharray": few ? DASHES[at] : "none" }));
      for (const [x, v] of knowns[at].length <= 60 ? knowns[at] : []) {
        group.append(svg("circle", { class: isHollow(x, item) ? "hollow" : "", cx: X(x), cy: Y(v), r: 3.5 }));
        if (isBest(x, item)) group.append(svg("circle", { class: "ring", cx: X(x), cy: Y(v), r: 9 }));
      }
      if (named) {
        const [x, v] = ends[at], name = svg("text", { x: W - R + 18, y: heights[at] + 4 }, item.name);
        group.append(svg("line", { class: "leader", x1: X(x) + 5, y1: Y(v), x2: W - R + 15, y2: heights[at] }), name);
        group.setAttribute("tabindex", "0");
        group.setAttribute("role", "img");
        group.setAttribute("aria-label", knowns[at].map((point) => told(item, ...point)).join("; "));
        group.addEventListener("focus", () => light(at, ends[at]));
      }
      return group;
    });
    picture.append(...groups);
    if (named) picture.append(groups.find((group) => group.classList.contains("best")) ?? groups[0]);
    node.replaceChildren(picture);
    if (!named) return;

    function light(at, [x, v]) {
      groups.forEach((group, k) => group.classList.toggle("lit", k === at));
      said.textContent = told(lines[at], x, v);
    }
    const point = (event) => {
      const bounds = picture.getBoundingClientRect(), px = event.clientX - bounds.left, py = event.clientY - bounds.top;
      const near = lines.flatMap((item, at) => (px > W - R ? [[Math.abs(heights[at] - py), at, ends[at]]]
        : knowns[at].map(([x, v]) => [Math.hypot(X(x) - px, Y(v) - py), at, [x, v]])));
      const [distance, at, which] = near.reduce((a, b) => (b[0] < a[0] ? b : a));
      if (distance < 40) light(at, which);
    };
    picture.addEventListener("pointermove", point);
    picture.addEventListener("pointerdown", point);
    node.append(said);
  }

  function showCharts() {
    // A visible section leaves less room for its neighbour.
    $("selection-section").hidden = !data.selection;
    chart($("history-chart"), data.historySteps, [{ name: "", values: data.history }], "step", "log-likelihood");
    if (!data.selection) return;
    const { criterion, higher, counts, lines, best, degenerate } = data.selection;
    chart($("selection-chart"), counts, lines, "number of clusters", `${criterion} (${higher ? "higher" : "lower"} is better)`, best, degenerate);
    if (degenerate.length) $("selection-chart").append(element("p", { class: "note", text: "Hollow: degenerate fits, chosen only if all are." }));
  }

  // Page ------------------------------------------------------------------------------------------------------------
  function showColours() { showLegend(); showSets(); redraw(); }
  $("theme").addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    showColours();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showColours);
  // Paper is white.
  let kept = null;
  addEventListener("beforeprint", () => {
    if (!isDark()) return;
    kept = document.documentElement.dataset.theme ?? "";
    document.documentElement.dataset.theme = "light";
    showColours();
    draw();
  });
  addEventListener("afterprint", () => {
    if (kept === null) return;
    if (kept) document.documentElement.dataset.theme = kept; else delete document.documentElement.dataset.theme;
    kept = null;
    showColours();
  });
  for (const button of document.querySelectorAll(".copy")) {
    button.addEventListener("click", async () => {
      const text = $(button.dataset.from).textContent;
      try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; }
      catch { getSelection().selectAllChildren($(button.dataset.from)); button.textContent = "Selected"; }
    });
  }
  if (data.nRows < data.nTotal) {
    $("sampled").hidden = false;
    $("sampled").textContent = `The model was fitted to ${spaced(data.nTotal)} rows. This page shows a sample of ${spaced(data.nRows)} rows: counts are for the sample, parameters for all rows.`
      + (n < data.nRows ? ` The plot shows ${spaced(n)} rows of the sample, including all rows of the table below.` : "");
  } else if (n < data.nRows) {
    $("sampled").hidden = false;
    $("sampled").textContent = `The plot shows a sample of ${spaced(n)} of ${spaced(data.nRows)} rows, including all rows of the table below. All numbers are for all rows.`;
  }
  // Draw the largest sets first: sets of several clusters and rare ones end on top.
  order = [...Array(n).keys()].sort((a, b) => members[chosenSet[a]].length - members[chosenSet[b]].length || a - b);
  fitBox();
  showColours();
  showObjects();
  showParameters();
  showCharts();
  showThreshold();
  new ResizeObserver(redraw).observe(canvas);
  let chartWidth = $("history-chart").clientWidth;
  new ResizeObserver(() => {
    if ($("history-chart").clientWidth === chartWidth) return;
    chartWidth = $("history-chart").clientWidth;
    showCharts();
  }).observe($("history-chart"));
  document.documentElement.dataset.ready = "true";
})();
