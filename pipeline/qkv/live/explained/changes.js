"use strict";
// The section `changes`: one thing in the cross-attention is changed, without learning anew. The translation, its
// probability, and the weights of the chosen row follow at once.

// The factors on scores from which the slider chooses.
const SHARPNESS = [0, .1, .2, .35, .5, .7, 1, 1.5, 2, 3, 5, 7, 10, Infinity];
const SWITCHES = ["unscaled", "rawVectors", "withoutOutput"]; // names of changes, see engine/transformer.js

// Returns the changes that the state names, see UNCHANGED of engine/transformer.js.
function readChanges({ state }) {
  const given = state.sharpness === "one-hot" ? Infinity : Number(state.sharpness ?? 1);
  const changes = { sharpness: given >= 0 && (given <= 10 || given === Infinity) ? given : 1 };
  for (const name of SWITCHES) changes[name] = state[name] === "yes";
  return changes;
}

function drawChanges(page, root) {
  const layout = htmlElement("div", { class: "beside even" }), controls = htmlElement("form", { class: "changing" }), result = htmlElement("div", { class: "result" });
  controls.append(...drawControls(page));
  controls.addEventListener("submit", (event) => event.preventDefault());
  layout.append(controls, result);
  root.append(drawText(say("explain.changes.lead"), { class: "lead" }), layout);
  let asked = 0;
  const draw = async () => {
    const number = ++asked, changes = readChanges(page), { asked: sentence } = page.answer;
    const [changed, forced] = await Promise.all([{ changes }, { changes, prefix: page.answer.target.ids }].map((options) => page.backend.translation(sentence, options)));
    if (number === asked) result.replaceChildren(...drawResult(page, changes, changed, forced));
  };
  page.subscribe((changes) => {
    const names = ["sentence", "sharpness", ...SWITCHES, "site", "layer", "head", "row"];
    return names.some((name) => name in changes) ? draw() : null;
  });
  return draw();
}

// Returns the slider, the switches and the button that undoes all. They follow the state.
function drawControls(page) {
  const slider = htmlElement("input", { type: "range", name: "sharpness", min: 0, max: SHARPNESS.length - 1, step: 1 }), ends = htmlElement("div", { class: "ends quiet", "aria-hidden": "true" });
  const now = htmlElement("output", { class: "number" }), label = labelled(say("explain.changes.sharpness"), slider);
  ends.append(...["uniform", "trained", "one-hot"].map((name) => htmlElement("span", {}, say(`explain.changes.${name}`))));
  slider.addEventListener("input", () => {
    const value = SHARPNESS[Number(slider.value)];
    page.set({ sharpness: value === 1 ? null : value === Infinity ? "one-hot" : value });
  });
  const root = page.inside().query.length, boxes = SWITCHES.filter((name) => name !== "unscaled" || page.model.settings.sites.cross.scale !== 1).map((name) => {
    const box = htmlElement("input", { type: "checkbox", name });
    box.addEventListener("change", () => page.set({ [name]: box.checked ? "yes" : null }));
    const line = labelled("", box, false);
    line.lastChild.append(...mathNodes(say(`explain.changes.${name}`, { count: root })));
    return line;
  });
  const reset = makeButton(say("explain.changes.reset"), {}, () => page.set(Object.fromEntries(["sharpness", ...SWITCHES].map((name) => [name, null]))));
  const show = () => {
    const changes = readChanges(page), nearest = SHARPNESS.findLastIndex((value) => value <= changes.sharpness);
    slider.value = nearest;
    slider.setAttribute("aria-valuetext", sharpnessText(changes.sharpness));
    now.textContent = sharpnessText(changes.sharpness);
    for (const line of boxes) line.firstChild.checked = changes[line.firstChild.name];
    reset.disabled = !isChanged(changes);
  };
  show();
  page.subscribe(show);
  const head = htmlElement("div", { class: "slider" });
  head.append(label, now, ends);
  return [head, ...boxes, reset];
}

function isChanged({ sharpness, ...switches }) {
  return sharpness !== 1 || Object.values(switches).some(Boolean);
}

function sharpnessText(sharpness) {
  const names = new Map([[0, "uniform"], [1, "trained"], [Infinity, "one-hot"]]);
  return names.has(sharpness) ? say(`explain.changes.${names.get(sharpness)}`) : say("explain.changes.times", { factor: formatNumber(sharpness, sharpness % 1 ? 2 : 0) });
}

// Returns a probability as per cent, or as one in so many if it is small.
function formatProbability(probability) {
  if (probability >= .001) return formatShare(probability);
  if (probability < 1e-14) return say("explain.changes.hardly");
  const count = (1 / probability).toLocaleString(say.language, { notation: "compact", compactDisplay: "long", maximumSignificantDigits: 2 });
  return say("explain.changes.one.in", { number: count });
}

const totalProbability = ({ logProbabilities }) => Math.exp(logProbabilities.reduce((sum, value) => sum + value, 0));

// Returns the translation before and after the change, their probabilities, what the change means, and the row.
function drawResult(page, changes, changed, forced) {
  const { answer } = page, [lost, added] = differences(answer.target.pieces, changed.target.pieces), list = htmlElement("dl", { class: "versions" });
  const line = (name, pieces, marked, probability) => {
    const text = htmlElement("dd", { lang: page.facts.languages.target, dir: "auto" });
    pieces.forEach((piece, place) => {
      if (piece === "</s>") return;
      const words = piece.replaceAll(SPACE, " ");
      text.append(marked.has(place) ? htmlElement("mark", {}, words) : words);
    });
    list.append(htmlElement("dt", {}, say(`explain.changes.${name}`)), text, htmlElement("dd", { class: "number" }, formatProbability(probability)));
  };
  line("trained", answer.target.pieces, lost, totalProbability(answer));
  line("changed", changed.target.pieces, added, totalProbability(changed));
  const meanings = [
    ...(changes.sharpness !== 1 ? [changes.sharpness === 0 ? "uniform.text" : changes.sharpness === Infinity ? "one-hot.text" : changes.sharpness > 1 ? "sharper.text" : "flatter.text"] : []),
    ...SWITCHES.filter((name) => changes[name]).map((name) => `${name}.text`),
  ];
  const notes = meanings.length ? meanings.map((name) => drawText(say(`explain.changes.${name}`))) : [drawText(say("explain.changes.none"))];
  const same = htmlElement("p", { class: "quiet" }, say("explain.changes.forced", { probability: formatProbability(totalProbability(forced)) }));
  return [list, same, ...notes, ...drawRowChange(page, forced)];
}

// Returns the weights of the chosen row of the cross-attention, as trained and changed.
function drawRowChange(page, forced) {
  const { layer, head, row } = page.chosenAt("cross"), { source, target } = page.answer, count = source.ids.length, first = (head * target.ids.length + row) * count;
  const before = page.weights("cross", layer, head)[row], after = [...forced.attention.cross[layer].subarray(first, first + count)], list = htmlElement("ul", { class: "lines both" });
  source.pieces.forEach((piece, place) => {
    const line = htmlElement("li"), bars = htmlElement("span", { class: "two" });
    bars.append(drawBar(before[place], { whole: true }), drawBar(after[place], { whole: true, role: "weight" }));
    line.append(drawToken(page, piece, "source"), bars, htmlElement("span", { class: "number" }, `${formatNumber(before[place])} → ${formatNumber(after[place])}`));
    list.append(line);
  });
  const title = htmlElement("h4");
  title.append(...saidWith("explain.changes.row", { token: drawToken(page, target.pieces[row], "target"), head: String(head) }));
  return [title, list];
}
