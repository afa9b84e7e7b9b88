"use strict";
// The section with twelve questions. Each asks for a prediction first; the answers about numbers are computed from this
// run.

// For each question: `options`, the number of answers to choose from, and `right`, the right one; or `range`, the largest
// number that can be predicted, and `near`, how far from the answer a prediction may be. `values(page)` promises
// the values of its words; `answer` among them is the right number. It promises null if this file has no such number, and the words of `missing` say so.
// `seen(page)` returns the state of the page that shows the answer.
const QUESTIONS = [
  { options: 3, right: 1, seen: () => ({ section: "sites" }) },
  { options: 3, right: 0, seen: () => ({ section: "answer" }) },
  { range: 64, unit: 1, near: 0, values: ({ model }) => ({ answer: 8, size: model.settings.sites.cross.size, root: formatNumber(Math.sqrt(model.settings.sites.cross.size)) }), seen: () => ({ section: "changes", unscaled: "yes" }) },
  { options: 3, right: 2, seen: () => ({ section: "sites" }) },
  { options: 3, right: 1, seen: () => ({ section: "plane", asker: "cat", planeScore: "dot", arrows: writeArrows(PLANE_EQUAL) }) },
  { options: 2, right: 1, values: lengthValues, seen: () => ({ section: "steps" }) },
  { range: 1, unit: 0.01, near: 0.1, values: weightValues, missing: "explain.questions.missing.example", seen: (page) => ({ section: "steps", ...exampleState(page) }) },
  { range: 100, unit: 1, near: 5, percent: true, values: (page) => shareValues(page, "one-hot"), missing: "explain.questions.missing.changes", seen: () => ({ section: "changes", sharpness: "one-hot" }) },
  { range: 100, unit: 1, near: 5, percent: true, values: (page) => shareValues(page, "values := keys"), missing: "explain.questions.missing.changes", seen: () => ({ section: "unlearn", unlearn: 2 }) },
  { range: 1, unit: 0.01, near: 0.1, values: pronounValues, missing: "explain.questions.missing.pronoun", seen: (page) => ({ section: "pronoun", pronounOff: nameHeads(findPronouns(page).pointing.heads) }) },
  { range: 100, unit: 1, near: 10, percent: true, values: logitValues, missing: "explain.questions.missing.example", seen: (page) => ({ section: "steps", ...exampleState(page) }) },
  { range: 100, unit: 1, near: 10, percent: true, values: agreementValues, seen: (page) => ({ section: "unlearn", unlearn: 9 }) },
];

// Draws the section. Its state: `question`, the number of the question that is shown, from 1.
function drawQuestions(page, root) {
  new Questions(page, root);
}

class Questions {
  constructor(page, root) {
    this.page = page;
    this.given = new Map(); // number of a question -> { prediction, right }
    this.list = htmlElement("div", { class: "question-list", role: "group", "aria-label": say("explain.questions.list") });
    this.panel = htmlElement("article", { class: "question" });
    this.score = htmlElement("p", { class: "quiet", role: "status" });
    root.append(htmlElement("p", {}, say("explain.questions.text")), this.list, this.panel, this.score);
    page.subscribe((changes) => ("question" in changes || "sentence" in changes || "row" in changes) && this.draw());
    this.draw();
  }

  get number() {
    const number = Number(this.page.state.question);
    return Number.isInteger(number) && number >= 1 && number <= QUESTIONS.length ? number : 1;
  }

  draw() {
    this.drawList();
    this.drawScore();
    this.drawPanel();
  }

  drawList() {
    keepPlace(this.list, () => {
      const buttons = QUESTIONS.map((_, i) => {
        const given = this.given.get(i + 1), mark = given ? (given.right ? " ✓" : " ✗") : "";
        return makeButton(`${i + 1}${mark}`, {
          "data-focus": `question ${i + 1}`, "aria-current": i + 1 === this.number ? "true" : null,
          "aria-label": say(given ? (given.right ? "explain.questions.number.right" : "explain.questions.number.wrong") : "explain.questions.number", { number: String(i + 1) }),
        }, () => this.page.set({ question: i + 1 }));
      });
      this.list.replaceChildren(...buttons);
    });
  }

  drawScore() {
    const right = [...this.given.values()].filter((given) => given.right).length;
    this.score.textContent = this.given.size ? say("explain.questions.score", { answered: String(this.given.size), all: String(QUESTIONS.length), right: String(right) }) : "";
  }

  async drawPanel() {
    const { number, page } = this, question = QUESTIONS[number - 1], turn = this.turn = {};
    this.panel.setAttribute("aria-busy", "true");
    const values = question.values ? await question.values(page) : {};
    if (turn !== this.turn) return; // another question was chosen
    this.panel.removeAttribute("aria-busy");
    this.panel.dataset.question = number;
    const heading = htmlElement("h3", {}, say("explain.questions.heading", { number: String(number), all: String(QUESTIONS.length) }));
    if (!values) {
      this.panel.replaceChildren(heading, htmlElement("p", {}, say(question.missing)), this.makeSteps());
      return;
    }
    this.panel.replaceChildren(heading, mathElement("p", { class: "asked" }, say(`explain.questions.${number}.text`, values)));
    const given = this.given.get(number);
    this.panel.append(this.makeForm(question, number, given, values));
    if (given) this.panel.append(this.makeAnswer(question, number, given, values));
    this.panel.append(this.makeSteps());
  }

  // Returns the form for a prediction, which cannot be changed once it is given.
  makeForm(question, number, given, values) {
    const form = htmlElement("form"), fields = htmlElement("fieldset", { disabled: Boolean(given) });
    fields.append(htmlElement("legend", { class: "quiet" }, say("explain.questions.predict")));
    if (question.options) {
      for (let option = 0; option < question.options; option++) {
        const label = htmlElement("label", { class: given && option === question.right ? "option right" : "option" });
        label.append(
          htmlElement("input", { type: "radio", name: "option", value: option, required: true, checked: given?.prediction === option }),
          mathElement("span", {}, say(`explain.questions.${number}.option.${option + 1}`)));
        fields.append(label);
      }
    } else {
      const start = given?.prediction ?? question.range / 2, output = htmlElement("output", {}, writePrediction(question, start));
      const input = htmlElement("input", { type: "range", name: "number", min: 0, max: question.range, step: question.unit, value: start, "aria-label": say("explain.questions.predict") });
      input.addEventListener("input", () => { output.textContent = writePrediction(question, Number(input.value)); });
      const line = htmlElement("div", { class: "slider" });
      line.append(input, output);
      fields.append(line);
    }
    form.append(fields);
    if (!given) form.append(htmlElement("button", { type: "submit", class: "primary" }, say("explain.questions.submit")));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      const prediction = Number(new FormData(form).get(question.options ? "option" : "number"));
      const right = question.options ? prediction === question.right : Math.abs(prediction - values.answer) <= question.near + 1e-9;
      this.given.set(number, { prediction, right });
      this.draw();
      this.focusAnswer = true;
    });
    return form;
  }

  makeAnswer(question, number, given, values) {
    const box = htmlElement("div", { class: given.right ? "answer right" : "answer", role: "status", tabindex: -1 });
    const verdict = question.options || question.near === 0
      ? say(given.right ? "explain.questions.right" : "explain.questions.wrong")
      : say(given.right ? "explain.questions.near" : "explain.questions.far", { prediction: writePrediction(question, given.prediction), answer: writePrediction(question, values.answer, 1) });
    box.append(
      htmlElement("p", { class: "verdict" }, verdict), mathElement("p", {}, say(`explain.questions.${number}.answer`, values)),
      stateLink(this.page, say("explain.questions.see"), () => question.seen(this.page)));
    if (this.focusAnswer) requestAnimationFrame(() => box.focus({ preventScroll: true }));
    this.focusAnswer = false;
    return box;
  }

  makeSteps() {
    const steps = htmlElement("p", { class: "controls" }), { number } = this;
    if (number > 1) steps.append(makeButton(say("explain.questions.previous"), { "data-step": "previous" }, () => this.page.set({ question: number - 1 })));
    if (number < QUESTIONS.length) steps.append(makeButton(say("explain.questions.next"), { "data-step": "next" }, () => this.page.set({ question: number + 1 })));
    return steps;
  }
}

// Returns a predicted or right number as text. `digits`: the digits after the point of a percentage.
function writePrediction({ percent: isPercent, unit }, value, digits = 0) {
  if (isPercent) return exactShare(value / 100, Number.isInteger(value) ? 0 : digits);
  return unit === 1 ? value.toLocaleString(say.language) : formatNumber(value);
}

function shareValues(page, name) {
  const changes = page.facts.measured.changes;
  if (!changes || !(name in changes)) return null;
  return { answer: 100 * changes[name], share: exactShare(changes[name]), before: exactShare(changes["as it is"]), tokens: page.facts.measured.tokens };
}

// Returns the state that shows the row of the example of the questions.
function exampleState(page) {
  const { text, row } = page.facts.measured.example ?? {};
  return text === undefined ? {} : { sentence: text, site: "cross", layer: page.model.settings.decoder_layers - 1, head: page.exampleHead ?? 0, row };
}

// Promises the product, the score and the weight of the example: of the head whose row has the largest weight.
async function weightValues(page) {
  const example = page.facts.measured.example;
  if (!example) return null;
  const { sites, decoder_layers } = page.model.settings, rows = [];
  for (let head = 0; head < sites.cross.heads; head++) {
    rows.push(await page.backend.row({ text: example.text, target: example.target, site: "cross", layer: decoder_layers - 1, head, query: example.row }));
  }
  const largest = rows.map(({ weights }) => Math.max(...weights)), head = largest.indexOf(Math.max(...largest));
  const { products, scores, scale, weights, tokens } = rows[head], key = weights.indexOf(largest[head]);
  page.exampleHead = head;
  return {
    sentence: example.text, token: tokenText(example.token), head: String(head), key: tokenText(tokens[key]),
    product: formatNumber(products[key], 1), score: formatNumber(scores[key]), weight: formatNumber(weights[key], 3), divisor: formatNumber(1 / scale),
    second: formatNumber(Math.max(...scores.filter((_, place) => place !== key))),
    answer: weights[key],
  };
}

// Returns the heads that point at the noun, in how many sentences the least of them does, and what that is worth.
function pronounValues(page) {
  const { cases, sentences, pointing } = findPronouns(page), means = page.facts.measured.pronounMeans;
  if (!cases.length || !means) return null;
  return {
    sentences: String(sentences), points: String(Math.min(...pointing.heads.map(([layer, head]) => pointing.counts[layer][head]))),
    heads: listHeads(pointing.heads), all: formatNumber(means.all, 3), without: formatNumber(means.without, 3),
    others: means.others === null ? "–" : formatNumber(means.others, 3), sets: String(means.sets), answer: means.without,
  };
}

// Returns the share of the example's logit that cross-attention brings, and from which word; see `split_logit` in
// inspection/experiments/logit_parts.py.
function logitValues(page) {
  const { example, logit } = page.facts.measured;
  if (!logit) return null;
  const best = logit.sources.indexOf(Math.max(...logit.sources));
  return {
    token: tokenText(example.token), sentence: example.text, total: formatNumber(logit.total, 1), cross: formatNumber(logit.cross, 1),
    word: tokenText(logit.tokens[best]), most: formatNumber(logit.sources[best], 1), answer: Math.max(0, Math.min(100, 100 * logit.cross / logit.total)),
  };
}

async function agreementValues(page) {
  const { agree, rows, sentence } = await measureRemoval(page);
  return { agree, rows, sentence, answer: 100 * agree / rows };
}

// Promises in how many rows of the page's sentence the source token with the largest weight (the mean of all heads of
// cross-attention) is also the token without which the probability of the written token falls most: { agree, rows,
// sentence, drops }. `drops` holds for each row the fall of the log-probability without each source token.
async function measureRemoval(page) {
  const { model, answer } = page, { source, target } = answer, S = source.ids.length - 1; // EOS is not left out
  if (page.removal?.answer === answer) return page.removal;
  const whole = forceTarget(model, source.ids, target.ids), drops = target.ids.map(() => []);
  for (let s = 0; s < S && S > 1; s++) {
    await new Promise((resolve) => setTimeout(resolve));
    forceTarget(model, source.ids.filter((_, place) => place !== s), target.ids).forEach((value, row) => drops[row].push(whole[row] - value));
  }
  const { decoder_layers, sites } = model.settings, means = target.ids.map(() => Array(S).fill(0));
  for (let layer = 0; layer < decoder_layers; layer++) {
    for (let head = 0; head < sites.cross.heads; head++) {
      page.weights("cross", layer, head).forEach((row, t) => row.slice(0, S).forEach((weight, s) => { means[t][s] += weight; }));
    }
  }
  const largestPlace = (row) => row.indexOf(Math.max(...row));
  const agree = drops.filter((row, t) => row.length && largestPlace(row) === largestPlace(means[t])).length;
  return page.removal = { answer, agree, rows: target.ids.length, sentence: answer.text, drops };
}

// Returns the log-probability of each token of a target that the model is made to write.
function forceTarget(model, sourceIds, targetIds) {
  const encoded = model.encode(sourceIds), cache = model.emptyCache(targetIds.length), { bos } = model.settings.special;
  return targetIds.map((id, place) => model.step(place ? targetIds[place - 1] : bos, place, encoded, cache).logProbabilities[id]);
}
