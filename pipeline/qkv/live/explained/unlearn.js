"use strict";
// The section with sentences to unlearn. Each has an address, what to say instead, a number of this run if there is one,
// and something to try on the page.

// For each sentence: `values(page)` promises the values of the words of its number, null if this run has none; `attempt`
// returns the state of the page that shows it.
const UNLEARN = [
  { attempt: () => ({ section: "plane", asker: "cat", arrows: writeArrows(PLANE_EQUAL), planeScore: "dot" }) },
  { values: (page) => changeValues(page, "values := keys"), attempt: (page) => ({ section: "steps", ...exampleState(page) }) },
  { values: (page) => changeValues(page, "keys := values"), attempt: () => ({ section: "sites" }) },
  { values: countValues, attempt: (page) => ({ section: "steps", row: otherRow(page) }) },
  { values: countMatrices, attempt: () => ({ section: "answer" }) },
  { values: ({ model }) => ({ size: model.settings.sites.cross.size, root: formatNumber(Math.sqrt(model.settings.sites.cross.size)) }), attempt: () => ({ section: "changes", unscaled: "yes" }) },
  { values: countProjections, attempt: () => ({ section: "sites" }) },
  { values: (page) => changeValues(page, "raw vectors"), attempt: () => ({ section: "changes", rawVectors: "yes" }) },
  { values: removalValues, attempt: () => ({ section: "questions", question: 12 }) },
  { values: lengthValues, attempt: () => ({ section: "steps" }) },
];
const PLANE_EQUAL = PLANE_START.map((arrow) => arrow.map((value) => clipToPlane(2 * value / planeLength(arrow))));

// Draws the section. Its state: `unlearn`, the number of the sentence that is open, from 1.
function drawUnlearn(page, root) {
  const list = htmlElement("ol", { class: "unlearn" });
  const items = UNLEARN.map((sentence, i) => {
    const item = htmlElement("li"), details = htmlElement("details", { "data-unlearn": i + 1 });
    const summary = htmlElement("summary"), body = htmlElement("div", { class: "unlearn-body" });
    summary.append(mathElement("q", {}, say(`explain.unlearn.${i + 1}.wrong`)));
    details.append(summary, body);
    details.addEventListener("toggle", () => {
      if (details.open && page.state.unlearn !== String(i + 1)) page.set({ unlearn: i + 1 });
      else if (!details.open && page.state.unlearn === String(i + 1)) page.set({ unlearn: null });
    });
    item.append(details);
    list.append(item);
    return { details, body, sentence };
  });
  root.append(htmlElement("p", {}, say("explain.unlearn.text")), list);
  const open = (changes) => items.forEach(({ details, body, sentence }, i) => {
    details.open = page.state.unlearn === String(i + 1);
    if (details.open && (!changes || "unlearn" in changes || "sentence" in changes || "row" in changes)) fillSentence(page, body, sentence, i + 1);
  });
  page.subscribe(open);
  open(null);
}

// Fills the open sentence: what to say instead, its number, and links.
async function fillSentence(page, body, sentence, number) {
  const instead = mathElement("p", { class: "instead" }, say(`explain.unlearn.${number}.instead`));
  const figure = htmlElement("p", { class: "figure" }), actions = htmlElement("p", { class: "controls" });
  actions.append(
    stateLink(page, say(`explain.unlearn.${number}.try`), () => sentence.attempt(page)),
    stateLink(page, say("explain.unlearn.address"), () => ({ section: "unlearn", unlearn: number })));
  body.replaceChildren(instead, figure, actions);
  const values = await sentence.values?.(page);
  if (values) figure.replaceWith(mathElement("p", { class: "figure" }, say(`explain.unlearn.${number}.number`, values)));
  else figure.remove();
}

// Returns a link that sets a part of the state. Its address, for a new window or a bookmark, holds the same state.
function stateLink(page, text, state) {
  const link = mathElement("a", { class: "try", href: page.address(state()) }, text);
  link.addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    page.set(state());
  });
  return link;
}

const exactShare = (share, digits = 1) => share.toLocaleString(say.language, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits });

// Returns the shares of next tokens that are right as the model is and under a change, null if they were not measured.
function changeValues(page, name) {
  const measured = page.facts.measured.changes;
  return measured && name in measured ? { before: exactShare(measured["as it is"]), after: exactShare(measured[name]) } : null;
}

// Returns the number of values that the cross-attention computes for the sentence of the page, and the rows that use them.
function countValues({ model, answer }) {
  const { decoder_layers, sites } = model.settings;
  return { values: answer.source.ids.length * decoder_layers * sites.cross.heads, tokens: answer.source.ids.length, rows: answer.target.ids.length };
}

function countMatrices({ model }) {
  const { d_model, encoder_layers, decoder_layers, sites } = model.settings, { heads, size } = sites.cross;
  return { numbers: 3 * d_model * size, heads: (encoder_layers + 2 * decoder_layers) * heads };
}

function countProjections({ answer }) {
  const T = answer.target.ids.length, S = answer.source.ids.length;
  return { rows: T, columns: S, pairs: T * S, once: T + S };
}

// Returns a row of the sentence that is not the chosen one.
function otherRow(page) {
  const { row } = page.chosen;
  return row > 0 ? row - 1 : Math.min(1, page.answer.target.ids.length - 1);
}

// Promises how often the source token with the largest mean weight is also the one without which the next token loses
// most.
async function removalValues(page) {
  const { agree, rows } = await measureRemoval(page);
  return { agree, rows };
}

// Returns the lengths of the state before the attention, of what all heads add, and of the state after it.
function lengthValues(page) {
  const { before, sum } = page.inside(), length = (vector) => Math.hypot(...vector);
  return {
    before: formatNumber(length(before), 1), added: formatNumber(Math.hypot(...[...sum].map((value, i) => value - before[i])), 1), after: formatNumber(length(sum), 1),
  };
}
