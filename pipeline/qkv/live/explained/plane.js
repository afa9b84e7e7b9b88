"use strict";
// The section with a plane of arrows: one query and four keys with two coordinates, which can be dragged. Values are
// colours, so that their mixture, the context, can be seen. Nothing here comes from the model.

const PLANE_WORDS = ["cat", "apple", "tree", "juice"];
const PLANE_SCORES = ["dot", "scaled", "cosine"];
const PLANE_START = [[1.6, 0.9], [1.4, 1.6], [2.1, 0.4], [-1.7, 1.1], [0.5, -1.9]]; // the query, then a key for each word
const PLANE_EDGE = 3; // the largest coordinate
const PLANE_STEP = 0.1; // how far an arrow key moves a tip; ten times as far with Shift
const PLANE_COLOURS = ["#d55e00", "#e6b800", "#009e73", "#0072b2"]; // the values, after Okabe and Ito (2008)

const planeProduct = ([a, b], [c, d]) => a * c + b * d;
const planeLength = (vector) => Math.hypot(...vector);

// Returns the score of a key for a query. `kind` is one of PLANE_SCORES. The cosine of a vector of length 0 is 0.
function planeScore(query, key, kind) {
  const product = planeProduct(query, key);
  if (kind === "scaled") return product / Math.sqrt(2); // the root of the number of coordinates
  if (kind === "cosine") return product / (planeLength(query) * planeLength(key) || 1);
  return product;
}

// Returns the softmax of scores.
function planeWeights(scores) {
  const largest = Math.max(...scores), powers = scores.map((score) => Math.exp(score - largest));
  const total = powers.reduce((sum, power) => sum + power);
  return powers.map((power) => power / total);
}

// Returns the angle between two vectors in degrees, from 0 to 180; null if one of them has the length 0.
function planeAngle(a, b) {
  const cosine = planeProduct(a, b) / (planeLength(a) * planeLength(b));
  return Number.isFinite(cosine) ? Math.acos(Math.max(-1, Math.min(1, cosine))) * 180 / Math.PI : null;
}

// The matrices of OKLab (B. Ottosson 2020, "A perceptual color space for image processing"), a colour space in which equal
// distances look equal. Colours are mixed in it, because a mixture of sRGB numbers is too dark and changes its hue.
const OKLAB_CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566], [0.0883024619, 0.2817188376, 0.6299787005]];
const OKLAB_AXES = [[0.2104542553, 0.793617785, -0.0040720468], [1.9779984951, -2.428592205, 0.4505937099], [0.0259040371, 0.7827717662, -0.808675766]];
const OKLAB_CONES_BACK = [[1, 0.3963377774, 0.2158037573], [1, -0.1055613458, -0.0638541728], [1, -0.0894841775, -1.291485548]];
const OKLAB_RGB = [[4.0767416621, -3.3077115913, 0.2309699292], [-1.2684380046, 2.6097574011, -0.3413193965], [-0.0041960863, -0.7034186147, 1.707614701]];
const timesMatrix = (matrix, vector) => matrix.map((row) => row.reduce((sum, value, i) => sum + value * vector[i], 0));

// Returns the three numbers in OKLab of a colour such as "#d55e00".
function toOklab(colour) {
  const linear = [1, 3, 5].map((start) => {
    const value = parseInt(colour.slice(start, start + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return timesMatrix(OKLAB_AXES, timesMatrix(OKLAB_CONES, linear).map(Math.cbrt));
}

// Returns the colour, such as "#d55e00", of three numbers in OKLab.
function fromOklab(lab) {
  const linear = timesMatrix(OKLAB_RGB, timesMatrix(OKLAB_CONES_BACK, lab).map((value) => value ** 3));
  return "#" + linear.map((value) => {
    const clipped = Math.max(0, Math.min(1, value));
    const level = clipped <= 0.0031308 ? 12.92 * clipped : 1.055 * clipped ** (1 / 2.4) - 0.055;
    return Math.round(255 * level).toString(16).padStart(2, "0");
  }).join("");
}

// Returns the mixture of colours with weights: the weighted sum of their vectors in OKLab, as attention mixes values.
function mixColours(colours, weights) {
  const vectors = colours.map(toOklab);
  return fromOklab([0, 1, 2].map((axis) => vectors.reduce((sum, vector, i) => sum + weights[i] * vector[axis], 0)));
}

// Returns the arrows of the text "x,y;x,y;…" in an address; those of the start if the text is not five arrows.
function readArrows(text) {
  const arrows = String(text ?? "").split(";").map((pair) => pair.split(",").map((number) => Number(number || "x")));
  const valid = arrows.length === PLANE_START.length && arrows.every((arrow) => arrow.length === 2 && arrow.every(Number.isFinite));
  return (valid ? arrows : PLANE_START).map((arrow) => arrow.map(clipToPlane));
}

const clipToPlane = (value) => Math.round(100 * Math.max(-PLANE_EDGE, Math.min(PLANE_EDGE, value))) / 100;
const writeArrows = (arrows) => arrows.map((arrow) => arrow.join(",")).join(";");

// Computes all numbers of the plane. `asker` is the index of the word whose vector is the query, null for a query of
// its own. Returns { query, scores, weights, colour }.
function computePlane(arrows, kind, asker) {
  const [free, ...keys] = arrows, query = asker === null ? free : keys[asker];
  const scores = keys.map((key) => planeScore(query, key, kind)), weights = planeWeights(scores);
  return { query, keys, scores, weights, colour: mixColours(PLANE_COLOURS, weights) };
}

// Draws the section. Its state: `arrows`, the tips; `planeScore`, one of PLANE_SCORES; `asker`, a word of PLANE_WORDS whose
// vector is the query, none for a query of its own.
function drawPlane(page, root) {
  new Plane(page, root);
}

class Plane {
  constructor(page, root) {
    this.page = page;
    this.active = 1; // the arrow whose product is drawn, an index of `arrows`
    root.append(
      htmlElement("p", {}, say("explain.plane.text")), this.makeControls(),
      this.goal = htmlElement("p", { class: "plane-goal", role: "status" }), this.layout = htmlElement("div", { class: "plane-layout" }),
      htmlElement("p", { class: "quiet" }, say("explain.plane.colours")));
    this.makePicture();
    this.numbers = htmlElement("div", { class: "plane-numbers" });
    this.layout.append(this.svg, this.numbers);
    this.read();
    page.subscribe((changes) => ["arrows", "planeScore", "asker"].some((key) => key in changes) && this.read());
  }

  read() {
    const { arrows, planeScore: kind, asker } = this.page.state, place = PLANE_WORDS.indexOf(asker);
    this.arrows = readArrows(arrows);
    this.kind = PLANE_SCORES.includes(kind) ? kind : "scaled";
    this.asker = place < 0 ? null : place;
    if (this.asker !== null && this.active === 0) this.active = 1;
    this.scoreChoice.value = this.kind;
    this.askerChoice.value = this.asker === null ? "" : PLANE_WORDS[this.asker];
    this.draw();
  }

  makeControls() {
    const box = htmlElement("div", { class: "controls" });
    const choice = (key, values, name) => {
      const select = htmlElement("select", { name: key });
      for (const value of values) select.append(htmlElement("option", { value }, name(value)));
      select.addEventListener("change", () => this.page.set({ [key]: select.value || null }));
      const label = htmlElement("label", {}, say(`explain.plane.choose.${key}`));
      label.append(select);
      box.append(label);
      return select;
    };
    this.askerChoice = choice("asker", ["", ...PLANE_WORDS],
      (word) => (word ? say("explain.plane.asker.word", { word: planeWord(word) }) : say("explain.plane.asker.own")));
    this.scoreChoice = choice("planeScore", PLANE_SCORES, (kind) => say(`explain.plane.score.${kind}`));
    box.append(
      makeButton(say("explain.plane.equal"), { class: "plane-equal" }, () => this.makeEqual()),
      makeButton(say("explain.plane.reset"), { class: "plane-reset" }, () => this.page.set({ arrows: null })));
    return box;
  }

  // Gives all keys the same length, 2.
  makeEqual() {
    const [query, ...keys] = this.arrows;
    const equal = keys.map((key) => key.map((value) => clipToPlane(2 * value / (planeLength(key) || 1))));
    this.page.set({ arrows: writeArrows([query, ...equal]) });
  }

  makePicture() {
    const edge = PLANE_EDGE + 0.35;
    this.svg = svgElement("svg", { class: "plane", viewBox: `${-edge} ${-edge} ${2 * edge} ${2 * edge}`, role: "group", "aria-label": say("explain.plane.picture") });
    const ground = svgElement("g", { class: "ground", "aria-hidden": "true" });
    for (let at = -PLANE_EDGE; at <= PLANE_EDGE; at++) {
      const kind = at ? "grid" : "axis";
      ground.append(
        svgElement("line", { class: kind, x1: at, x2: at, y1: -PLANE_EDGE, y2: PLANE_EDGE }),
        svgElement("line", { class: kind, y1: at, y2: at, x1: -PLANE_EDGE, x2: PLANE_EDGE }));
    }
    this.measure = svgElement("g", { class: "measure", "aria-hidden": "true" });
    this.svg.append(ground, this.measure);
    this.tips = PLANE_START.map((_, index) => this.makeTip(index));
    this.svg.append(...this.tips);
  }

  makeTip(index) {
    const tip = svgElement("g", {
      class: index ? "arrow key" : "arrow query", tabindex: 0, role: "slider", "data-arrow": index,
      "aria-valuemin": 0, "aria-valuemax": (PLANE_EDGE * Math.SQRT2).toFixed(2), "aria-label": this.nameOf(index),
    });
    tip.append(
      svgElement("line", { class: "halo" }), svgElement("line", { class: "shaft" }), svgElement("circle", { class: "hit", r: 0.34 }),
      index ? svgElement("circle", { class: "disc", r: 0.16, fill: PLANE_COLOURS[index - 1] }) : svgElement("path", { class: "head" }),
      svgElement("text", {}, index ? planeWord(PLANE_WORDS[index - 1]) : say("explain.plane.query")));
    tip.addEventListener("focus", () => this.activate(index));
    tip.addEventListener("keydown", (event) => this.pressKey(index, event));
    tip.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault();
      tip.setPointerCapture(event.pointerId);
      tip.focus({ preventScroll: true });
      this.dragged = index;
    });
    tip.addEventListener("touchstart", (event) => event.preventDefault(), { passive: false }); // else a finger scrolls the page
    tip.addEventListener("pointermove", (event) => {
      if (this.dragged !== index) return;
      const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.svg.getScreenCTM().inverse());
      this.move(index, [x, -y]);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      tip.addEventListener(end, () => {
        if (this.dragged !== index) return;
        this.dragged = null;
        this.keep(); // the address changes once a drag
      });
    }
    return tip;
  }

  nameOf(index) {
    return index ? say("explain.plane.key", { word: planeWord(PLANE_WORDS[index - 1]) }) : say("explain.plane.query");
  }

  activate(index) {
    this.active = index;
    this.draw();
  }

  move(index, tip) {
    this.arrows = this.arrows.map((arrow, i) => (i === index ? tip.map(clipToPlane) : arrow));
    this.draw();
  }

  keep() {
    this.page.set({ arrows: writeArrows(this.arrows) });
  }

  // Arrow keys move the tip; + and - lengthen and shorten the arrow.
  pressKey(index, event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const [x, y] = this.arrows[index], step = event.shiftKey ? 10 * PLANE_STEP : PLANE_STEP;
    const length = planeLength([x, y]) || 1, along = [x / length * PLANE_STEP, y / length * PLANE_STEP];
    const moves = { ArrowRight: [step, 0], ArrowLeft: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step], "+": along, "=": along, "-": along.map((value) => -value) };
    const move = moves[event.key];
    if (!move) return;
    event.preventDefault();
    this.move(index, [x + move[0], y + move[1]]);
    this.keep();
  }

  draw() {
    const facts = computePlane(this.arrows, this.kind, this.asker);
    this.tips.forEach((tip, index) => this.drawTip(tip, index));
    this.drawMeasure(facts);
    this.drawNumbers(facts);
    this.drawGoal(facts);
  }

  drawTip(tip, index) {
    const [x, y] = this.arrows[index], length = planeLength([x, y]) || 1, asks = index - 1 === this.asker;
    tip.toggleAttribute("hidden", index === 0 && this.asker !== null); // the query is then the vector of a word
    tip.classList.toggle("asks", asks);
    tip.classList.toggle("active", index === this.active);
    tip.setAttribute("aria-valuenow", planeLength([x, y]).toFixed(2));
    tip.setAttribute("aria-valuetext", say("explain.plane.place", { x: formatNumber(x), y: formatNumber(y), length: formatNumber(planeLength([x, y])) }));
    const [halo, shaft, hit, end, label] = tip.children, reach = Math.max(0, planeLength([x, y]) - 0.16);
    const [alongX, alongY] = [x / length, y / length], atSide = Math.abs(x) > PLANE_EDGE - 0.5;
    for (const line of [halo, shaft]) fillElement(line, { x2: alongX * reach, y2: -alongY * reach }, null);
    for (const circle of index ? [hit, end] : [hit]) fillElement(circle, { cx: x, cy: -y }, null);
    if (!index) end.setAttribute("d", arrowHead([x, -y], [alongX, -alongY]));
    fillElement(label, {
      x: Math.max(-PLANE_EDGE, Math.min(PLANE_EDGE, x + 0.36 * alongX)), y: atSide ? -y + (y > 0 ? -0.32 : 0.46) : -(y + 0.36 * alongY) + 0.08,
      "text-anchor": Math.abs(alongX) < 0.4 || atSide ? "middle" : alongX > 0 ? "start" : "end",
    }, null);
  }

  // Draws the foot of the active key on the line of the query: the product is the query's length times the foot's
  // distance from the origin.
  drawMeasure({ query }) {
    this.measure.replaceChildren();
    const key = this.arrows[this.active], length = planeLength(query);
    if (!this.active || !length) return;
    const along = query.map((value) => value / length), distance = planeProduct(key, along), foot = along.map((value) => value * distance);
    const far = along.map((value) => value * 2 * PLANE_EDGE);
    this.measure.append(
      svgElement("line", { class: "line", x1: -far[0], y1: far[1], x2: far[0], y2: -far[1] }),
      svgElement("line", { class: "drop", x1: key[0], y1: -key[1], x2: foot[0], y2: -foot[1] }),
      svgElement("line", { class: "foot", x2: foot[0], y2: -foot[1] }));
  }

  drawNumbers({ query, keys, scores, weights, colour }) {
    const table = htmlElement("table"), head = htmlElement("tr"), body = htmlElement("tbody");
    for (const name of ["word", "length", "angle", "product", "score", "weight"]) head.append(htmlElement("th", { scope: "col" }, say(`explain.plane.column.${name}`)));
    keys.forEach((key, i) => {
      const row = htmlElement("tr", { "data-word": PLANE_WORDS[i], class: i + 1 === this.active ? "active" : null });
      const word = htmlElement("th", { scope: "row" });
      word.append(colourPatch(PLANE_COLOURS[i]), planeWord(PLANE_WORDS[i]));
      const angle = planeAngle(query, key), weight = htmlElement("td", { class: "weight" });
      weight.append(formatNumber(weights[i]), htmlElement("span", { class: "length", style: `--share: ${weights[i]}; --colour: ${PLANE_COLOURS[i]}` }));
      row.append(word, ...[formatNumber(planeLength(key)), angle === null ? "–" : `${Math.round(angle)}°`, formatNumber(planeProduct(query, key)), formatNumber(scores[i])]
        .map((text) => htmlElement("td", {}, text)), weight);
      body.append(row);
    });
    const top = htmlElement("thead");
    top.append(head);
    table.append(top, body);
    const context = htmlElement("p", { class: "plane-context" });
    keys.forEach((_, i) => context.append(i ? " + " : "", `${formatNumber(weights[i])} `, colourPatch(PLANE_COLOURS[i])));
    context.append(" = ", htmlElement("span", { class: "mixture", style: `--colour: ${colour}`, "data-colour": colour }), ` ${say("explain.plane.context")}`);
    const parts = [table, context];
    if (this.active) {
      const key = keys[this.active - 1], length = planeLength(query), product = planeProduct(query, key);
      parts.push(htmlElement("p", { class: "plane-product quiet" }, say("explain.plane.product", {
        word: planeWord(PLANE_WORDS[this.active - 1]), length: formatNumber(length), foot: formatNumber(length ? product / length : 0), product: formatNumber(product),
      })));
    }
    this.numbers.replaceChildren(...parts);
  }

  // Says what to try, and when it has happened.
  drawGoal({ keys, weights }) {
    const text = this.goalText(keys, weights);
    if (this.goal.textContent !== text) this.goal.textContent = text; // else a screen reader would say it again
    this.goal.classList.toggle("reached", this.reached);
  }

  goalText(keys, weights) {
    this.reached = false;
    if (this.asker === null) return say("explain.plane.goal.start");
    const best = weights.indexOf(Math.max(...weights)), values = {
      word: planeWord(PLANE_WORDS[this.asker]), other: planeWord(PLANE_WORDS[best]),
      own: formatNumber(weights[this.asker]), most: formatNumber(weights[best]),
    };
    if (this.kind === "cosine") return say("explain.plane.goal.cosine", values);
    this.reached = weights[best] > weights[this.asker];
    if (this.reached) return say("explain.plane.goal.reached", values);
    const lengths = keys.map(planeLength);
    return say(Math.max(...lengths) - Math.min(...lengths) < 0.02 ? "explain.plane.goal.equal" : "explain.plane.goal.try", values);
  }
}

const planeWord = (word) => say(`explain.plane.word.${word}`);

function colourPatch(colour) {
  return htmlElement("span", { class: "patch", style: `--colour: ${colour}`, "aria-hidden": "true" });
}

// Returns the path of an arrow's head with its tip at a place.
function arrowHead([x, y], [dx, dy]) {
  const back = [x - 0.3 * dx, y - 0.3 * dy], across = [-0.13 * dy, 0.13 * dx];
  return `M${x} ${y}L${back[0] + across[0]} ${back[1] + across[1]}L${back[0] - across[0]} ${back[1] - across[1]}Z`;
}
