"use strict";
// The guided tour: steps that show on this run what attention does. Each step makes a claim about one sentence, which is
// found by trying the run's examples and checked before it is shown. A step whose claim holds nowhere is left out.

const MOST_TRIED = 8; // examples
const MOST_TRYING = 6000; // milliseconds in which a step looks for an example
const CLEAR = 0.5; // the least weight of a cell of which a step says that a word looks there

// The answers of the first run to the examples, with and without changes. Each is asked once.
class Trials {
  constructor(panel) {
    this.panel = panel;
    this.run = panel.backend.runs[0];
    this.answers = new Map();
    this.end = 0; // of the time of a step
  }

  get texts() {
    return this.panel.backend.examples.slice(0, MOST_TRIED);
  }

  // Returns whether the step has time to try further examples.
  get hasTime() {
    return performance.now() < this.end;
  }

  // Promises the facts of the translation of a text. `changes`: those of heads, see question.py.
  async answer(text, changes = []) {
    const name = JSON.stringify([text, changes]);
    if (!this.answers.has(name)) {
      const asked = new Case(-1, asLine(text), this.panel.backend.beams[0], 1, null);
      this.answers.set(name, await this.panel.backend.answer({ ...asked.question(0), changes }, () => {}));
    }
    return this.answers.get(name);
  }

  // Promises whether a change alters the translation of a text, as {text, before, after, differs}.
  async effect(text, changes) {
    const [before, after] = [await this.answer(text), await this.answer(text, changes)].map((facts) => facts.sentence.hypothesis);
    return { text, before, after, differs: before !== after };
  }

  // Returns the cross-attention of a head over the words of a translation, see `present` in weights.js.
  shown(facts, layer, head) {
    const { sites } = this.panel.store, { sentence, units, weights } = facts, axes = sites.cross.axes, run = { units };
    const siteAxes = Object.fromEntries(Object.keys(this.run.sites).map((site) => [site, sites[site].axes]));
    const matrix = new SentenceWeights(sentence, this.run.sites, siteAxes, weights).matrix("cross", layer, head);
    const words = { rows: wordsOf(run, sentence, axes[0]), columns: wordsOf(run, sentence, axes[1]) };
    return present(matrix, tokensOf(sentence, axes), words, { words: true, hideEos: false });
  }

  // Returns the links of a head in a translation, in the order of its words: [{row, column, weight, target, source}], the
  // word of most weight for each word, both with letters.
  links(facts, layer, head) {
    const { matrix, rows, columns, rowWords, columnWords } = this.shown(facts, layer, head);
    const isWord = (text, word) => word !== null && /\p{L}/u.test(text);
    return matrix.flatMap((weights, row) => {
      const column = weights.indexOf(Math.max(...weights));
      const known = isWord(rows[row], rowWords[row]) && isWord(columns[column], columnWords[column]);
      return known ? [{ row, column, weight: weights[column], target: rows[row], source: columns[column] }] : [];
    });
  }

  // Promises the head of the cross-attention that agrees most with the alignment: by the evaluation's table, or else the
  // one whose rows have the largest weights on average.
  async alignedHead() {
    const [layers, heads] = this.run.sites.cross, all = headsOf(layers, heads);
    const known = all.filter(([layer, head]) => profileOf(this.run, "cross", layer, head)?.right !== undefined);
    const answers = await Promise.all(this.texts.map((text) => this.answer(text)));
    const measure = ([layer, head]) => (known.length ? profileOf(this.run, "cross", layer, head)?.right ?? -1
      : average(answers.flatMap((facts) => this.links(facts, layer, head).map(({ weight }) => weight))));
    return all.map((place) => ({ place, value: measure(place) })).reduce((best, one) => (one.value > best.value ? one : best)).place;
  }

  // Counts in which examples each head of an attention changes the translation when it is off, while there is time.
  // Returns [{at, layer, head, effects}] of the heads that were tried on all examples.
  async withoutHeads(at) {
    const found = [];
    for (const [layer, head] of headsOf(...(this.run.heads[at] ?? [0, 0]))) {
      const effects = [];
      for (const text of this.texts) {
        if (!this.hasTime) return found;
        effects.push(await this.effect(text, [{ site: at, layer, head, change: "zeroed" }]));
      }
      const changed = effects.filter(({ differs }) => differs).length;
      this.panel.lost.set(`0/${at}/${layer}/${head}`, { changed, tried: effects.length });
      found.push({ at, layer, head, effects, changed });
    }
    return found;
  }
}

// Returns the mean of numbers, 0 without numbers.
function average(numbers) {
  return numbers.reduce((sum, number) => sum + number, 0) / Math.max(1, numbers.length);
}

// Returns [layer, head] of all heads.
function headsOf(layers, heads) {
  return Array.from({ length: layers * heads }, (_, place) => [Math.floor(place / heads), place % heads]);
}

// The steps in order. Each promises null, or what it shows:
//   text      the sentence
//   layer, head, row   the shown head of the cross-attention, and the row that is chosen; null for none
//   site      the shown site, if not the cross-attention
//   changes   the changes of heads
//   values    the values of the words `live.tour.NAME.text`
const TOUR = {
  // A word and the source word that it looks at.
  async row(trials) {
    const [layer, head] = await trials.alignedHead();
    for (const text of trials.texts) {
      const links = trials.links(await trials.answer(text), layer, head).filter(({ weight, target, source }) => weight >= CLEAR && target !== source);
      const link = longest(links.map((one) => ({ ...one, words: [one.target, one.source] })));
      if (link) return { text, layer, head, row: link.row, values: { ...numbered(layer, head), target: link.target, source: link.source, weight: formatNumber(link.weight) } };
    }
    return null;
  },

  // A key whose product with the query is the largest, and a value that alone would predict the token.
  async vectors(trials) {
    const { backend } = trials.panel, [layer, head] = await trials.alignedHead();
    if (!backend.row || !trials.run.stepped?.includes("cross")) return null;
    const candidates = [];
    for (const text of trials.texts) {
      const facts = await trials.answer(text), rows = groupByWord(facts.sentence.target, facts.sentence.targetWords, null);
      const links = trials.links(facts, layer, head).filter(({ row, target, source }) => rows[row].places.length === 1 && target !== source);
      candidates.push(...links.map((link) => ({ ...link, text, facts, token: rows[link.row].places[0], words: [link.target, link.source] })));
    }
    while (candidates.length && trials.hasTime) {
      const best = longest(candidates), { text, facts, token, row, target, source } = best;
      candidates.splice(candidates.indexOf(best), 1);
      const question = { text: asLine(text), run: 0, target: facts.ids, query: token, site: "cross", layer, head };
      const { products, weights, words, tokens } = await backend.row(question), top = weights.indexOf(Math.max(...weights));
      if (products[top] < Math.max(...products) || words[top] !== facts.sentence.target[token] || nameToken(tokens[top]) !== source) continue;
      const values = { ...numbered(layer, head), target, source, product: formatNumber(products[top]), weight: formatNumber(weights[top]) };
      return { text, layer, head, row, values };
    }
    return null;
  },

  // Two neighbouring words whose source words stand the other way round.
  async turn(trials) {
    const [layer, head] = await trials.alignedHead(), layers = trials.run.sites.cross[0];
    for (const [shownLayer, shownHead] of [[layer, head], [layers - 1, "mean"]]) {
      const turns = [];
      for (const text of trials.texts) {
        const links = trials.links(await trials.answer(text), shownLayer, shownHead);
        for (const first of links) {
          const second = links.find(({ row }) => row === first.row + 1);
          if (!second || second.column >= first.column || Math.min(first.weight, second.weight) < CLEAR) continue;
          turns.push({ text, first, second, words: [first.target, second.target, first.source, second.source] });
        }
      }
      if (turns.length) {
        const { text, first, second } = longest(turns);
        const values = { first: first.target, second: second.target, firstSource: first.source, secondSource: second.source };
        return { text, layer: shownLayer, head: shownHead, row: null, values };
      }
    }
    return null;
  },

  // The head of the cross-attention without which most examples are translated otherwise.
  async costly(trials) {
    const tried = await trials.withoutHeads("cross"), worst = tried.reduce((most, one) => (most && most.changed >= one.changed ? most : one), null);
    if (!worst?.changed || tried.length < trials.run.heads.cross.reduce((product, size) => product * size)) return null;
    const { layer, head, effects, changed } = worst, { text, before, after } = effects.find(({ differs }) => differs), part = changedPart(before, after);
    return {
      text, layer, head, row: null, changes: [{ site: "cross", layer, head, change: "zeroed" }],
      values: { ...numbered(layer, head), ...part, changed, tried: effects.length },
    };
  },

  // A head without which every example is translated as before.
  async free(trials) {
    if (trials.texts.length < 2) return null;
    for (const at of ["cross", "decoder_self", "encoder_self"]) {
      const site = Object.keys(trials.run.sites).find((name) => trials.panel.store.sites[name].weighedAt === at);
      const free = site && (await trials.withoutHeads(at)).find(({ changed }) => changed === 0);
      if (!free) continue;
      const { layer, head, effects } = free, [{ text }] = effects;
      const values = { name: nameHead(at, layer, head), tried: effects.length };
      return { text, site, layer, head, row: null, changes: [{ site: at, layer, head, change: "zeroed" }], values };
    }
    return null;
  },

  // All heads of the last layer with equal weights for all words, or off where weights cannot be made equal.
  async even(trials) {
    const [layers, heads] = trials.run.heads.cross, layer = layers - 1, { changes: kinds } = trials.panel.backend;
    const change = kinds.includes("uniform") ? "uniform" : "zeroed";
    const changes = [...Array(heads).keys()].map((head) => ({ site: "cross", layer, head, change }));
    for (const text of trials.texts) {
      const { before, after, differs } = await trials.effect(text, changes);
      if (differs) return { text, layer, head: "mean", row: null, changes, values: { layer, before, after: after || say("live.empty"), change: say(`live.change.${change}.label`) } };
    }
    return null;
  },

  // A head whose weights may go to other words without harm, and one of the same sentence whose weights may not.
  async explains(trials) {
    if (!trials.panel.backend.changes.includes("permuted")) return null;
    const all = headsOf(...trials.run.heads.cross);
    for (const text of trials.texts) {
      const effects = [];
      for (const [layer, head] of all) effects.push({ layer, head, ...(await trials.effect(text, [{ site: "cross", layer, head, change: "permuted" }])) });
      const same = effects.find(({ differs }) => !differs), other = effects.find(({ differs }) => differs);
      if (!same || !other) continue;
      const { layer, head } = other, part = changedPart(other.before, other.after);
      const values = { same: nameHead("cross", same.layer, same.head), other: nameHead("cross", layer, head), ...part };
      return { text, layer, head, row: null, changes: [{ site: "cross", layer, head, change: "permuted" }], values };
    }
    return null;
  },
};

// Returns the item whose shortest word is the longest, because long words say more: the first of several. `words` of each
// item: its words.
function longest(items) {
  const length = ({ words }) => Math.min(...words.map((word) => [...word].length));
  return items.reduce((best, item) => (best && length(best) >= length(item) ? best : item), null);
}

// Returns {before, after}, the parts of two translations between what they have in common at their beginnings and ends.
// A part that would be empty has the word before it.
function changedPart(before, after) {
  const gap = before.includes(" ") ? " " : "", [first, second] = [before, after].map((text) => (gap ? text.split(gap) : [...text]));
  let start = 0, end = 0;
  while (start < Math.min(first.length, second.length) && first[start] === second[start]) start++;
  while (end < Math.min(first.length, second.length) - start && first.at(-1 - end) === second.at(-1 - end)) end++;
  if (start && (start + end === first.length || start + end === second.length)) start--;
  const part = (words) => words.slice(start, words.length - end).join(gap) || say("live.empty");
  return { before: part(first), after: part(second) };
}

// Returns the layer and the head as text, so that they are written alike in all languages.
function numbered(layer, head) {
  return { layer: String(layer), head: String(head) };
}

class Tour {
  // `root`: the element of the steps. `button`: the button that starts and ends the tour.
  constructor(panel, root, button) {
    this.panel = panel;
    this.root = root;
    this.steps = null; // [{name, ...}], what each step shows, once they have been found
    this.step = 0;
    this.milliseconds = MOST_TRYING;
    button.hidden = !("cross" in panel.backend.runs[0].heads) || panel.backend.examples.length === 0;
    button.addEventListener("click", () => (root.hidden ? this.start() : this.end()));
  }

  async start() {
    await this.panel.enqueue(say("live.tour.looking"), async () => { this.steps ??= await this.find(); });
    if (this.steps?.length) await this.go(0);
    else if (this.steps) this.panel.tell(say("live.tour.nothing"));
  }

  end() {
    this.root.hidden = true;
    this.panel.find("start-tour").focus();
  }

  // Finds what each step shows on this run.
  async find() {
    const trials = new Trials(this.panel), steps = [], [text] = trials.texts, [layer, head] = [0, 0];
    await trials.effect(text, [{ site: "cross", layer, head, change: "zeroed" }]); // a server prepares its first change for seconds
    for (const [name, find] of Object.entries(TOUR)) {
      this.panel.tell(say("live.tour.looking.step", { title: say(`live.tour.${name}.title`) }));
      trials.end = performance.now() + this.milliseconds;
      const shown = await find(trials);
      if (shown) steps.push({ name, ...shown });
    }
    this.panel.viewer.draw(); // with what is lost without the heads
    return steps;
  }

  async go(step) {
    const { panel } = this, { text, site = "cross", layer, head, row, changes = [] } = this.steps[step];
    this.step = step;
    this.root.hidden = false;
    this.draw();
    await panel.showAgain(text);
    if (this.step !== step || !panel.case) return;
    const pin = row === null ? null : `r${row}`;
    panel.view.clicked = 0;
    panel.store.set({ site, layer, head, words: true, hideEos: false, side: "output", view: "matrix" });
    if (changes.length) await panel.edit(0, (edits) => edits.replaceHeads(changes));
    if (this.step === step) panel.store.set({ pin });
  }

  draw() {
    const { name, values } = this.steps[this.step], count = this.steps.length;
    const line = htmlElement("div", { class: "steps" }), buttons = htmlElement("div");
    const button = (label, disabled, action) => buttons.append(makeButton(label, { disabled }, action));
    button(say("live.tour.back"), this.step === 0, () => this.go(this.step - 1));
    button(say("live.tour.next"), this.step === count - 1, () => this.go(this.step + 1));
    button(say("live.tour.end"), false, () => this.end());
    const title = say("live.tour.step", { step: this.step + 1, all: count, title: say(`live.tour.${name}.title`) });
    line.append(htmlElement("h2", { tabindex: -1 }, title), buttons);
    this.root.replaceChildren(line, htmlElement("p", {}, say(`live.tour.${name}.text`, values)));
    this.root.querySelector("h2").focus({ preventScroll: true });
  }
}
