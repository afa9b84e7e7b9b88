"use strict";
// The section on "it" and its noun: the rows of the pronoun in all heads of the encoder, which can be switched off, and
// the probability of the right translation of the pronoun. Its sentences are checked when the page is made.

const SHOWN_CASES = 8; // of the counted sentences
const MOST_CONTROLS = 20; // as in inspection/experiments/pronouns.py

// Reads one sentence with some encoder heads switched off. `off` holds [layer, head]. Returns { rows, right,
// probabilities }: the weights of the pronoun's row in each head of each layer, the probability of the right
// translation against the wrong one, and the probabilities of both.
function readPronoun(model, { ids, prefix, position, right, wrong }, off = []) {
  const changes = encoderOff(off), encoded = model.encode(ids, changes), cache = model.emptyCache(prefix.length);
  let output = null;
  prefix.forEach((id, place) => { output = model.step(id, place, encoded, cache, changes); });
  const rows = rowsOfPosition(model, encoded, position), [ours, theirs] = [right, wrong].map((id) => output.logProbabilities[id]);
  return { rows, right: 1 / (1 + Math.exp(theirs - ours)), probabilities: [ours, theirs].map(Math.exp) };
}

// Returns { counts, heads }: in how many sentences each head's row of the pronoun has its largest weight on the noun,
// for each layer, and the [layer, head] of heads that do so in more than half of the sentences.
function findPointingHeads(model, cases) {
  const { encoder_layers, sites } = model.settings;
  const counts = Array.from({ length: encoder_layers }, () => Array(sites.encoder_self.heads).fill(0));
  for (const facts of cases) {
    rowsOfPosition(model, model.encode(facts.ids), facts.position).forEach((layer, l) => layer.forEach((row, h) => {
      const best = row.indexOf(Math.max(...row));
      if (best >= facts.noun[0] && best < facts.noun[1]) counts[l][h]++;
    }));
  }
  const heads = counts.flatMap((layer, l) => layer.map((count, h) => [l, h, count])).filter(([, , count]) => count > cases.length / 2);
  return { counts, heads: heads.map(([layer, head]) => [layer, head]) };
}

// Returns the change of the model that switches off encoder heads.
const encoderOff = (heads) => ({ off: new Set(heads.map(([layer, head]) => `encoder_self/${layer}/${head}`)) });

// Returns the weights of the row of a position in each head of each layer of the encoder.
function rowsOfPosition(model, { weights, S }, position) {
  const { heads } = model.settings.sites.encoder_self;
  return weights.map((layer) => Array.from({ length: heads }, (_, head) => [...layer.subarray((head * S + position) * S, (head * S + position + 1) * S)]));
}

// Returns sets of other heads, as many in each layer as `heads` has, at most MOST_CONTROLS; see `control_sets` in
// inspection/experiments/pronouns.py.
function controlSets(heads, layers, headsPerLayer) {
  let sets = [[]];
  for (let layer = 0; layer < layers; layer++) {
    const inLayer = heads.filter(([l]) => l === layer).map(([, head]) => head);
    const others = [...Array(headsPerLayer).keys()].filter((head) => !inLayer.includes(head)).map((head) => [layer, head]);
    sets = sets.flatMap((set) => chooseFrom(others, inLayer.length).map((part) => [...set, ...part]));
  }
  return sets.slice(0, MOST_CONTROLS);
}

// Returns all ways to choose `count` items, in the order of Python's `itertools.combinations`.
function chooseFrom(items, count) {
  if (!count) return [[]];
  return items.flatMap((item, i) => chooseFrom(items.slice(i + 1), count - 1).map((rest) => [item, ...rest]));
}

const average = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

// Finds the heads that point from the pronoun at its noun, once for a page. Returns { cases, sentences, pointing }: the
// sentences to choose from, none if the model knows no such sentence or has no such head; the number of sentences that were
// counted; and the result of `findPointingHeads`.
function findPronouns(page) {
  page.pronouns ??= (() => {
    const all = page.facts.measured.pronouns ?? [], counted = all.filter(({ use }) => use === "count"), pointing = findPointingHeads(page.model, counted);
    const cases = [...all.filter(({ use }) => use === "example"), ...counted.slice(0, SHOWN_CASES), ...all.filter(({ use }) => use === "subject")];
    return { cases: pointing.heads.length ? cases : [], sentences: counted.length, pointing };
  })();
  return page.pronouns;
}

// Draws the section. Its state: `pronounCase`, the index of a sentence; `pronounOff`, the encoder heads that are switched off, such
// as "0.1,1.3".
function drawPronoun(page, root) {
  if (!findPronouns(page).cases.length) {
    root.hidden = true;
    return;
  }
  new PronounSection(page, root);
}

class PronounSection {
  constructor(page, root) {
    this.page = page;
    this.root = root;
    const { cases, pointing } = page.pronouns, { encoder_layers, sites } = page.model.settings;
    this.sets = controlSets(pointing.heads, encoder_layers, sites.encoder_self.heads);
    this.choice = htmlElement("select", { name: "pronounCase" });
    cases.forEach((facts, i) => this.choice.append(htmlElement("option", { value: i, lang: page.facts.languages.source }, facts.source)));
    this.choice.addEventListener("change", () => page.set({ pronounCase: this.choice.value }));
    const label = htmlElement("label", { class: "wide" }, say("explain.pronoun.choose"));
    label.append(this.choice);
    this.rows = htmlElement("div", { class: "pronoun-rows", tabindex: 0, role: "group", "aria-label": say("explain.pronoun.rows") });
    this.buttons = htmlElement("div", { class: "controls" });
    this.buttons.append(
      makeButton(say("explain.pronoun.point"), { "data-off": "pointing" }, () => this.switchOff(pointing.heads)),
      ...(this.sets.length ? [makeButton(say("explain.pronoun.others"), { "data-off": "others" }, () => this.switchOff(this.nextOthers()))] : []),
      makeButton(say("explain.pronoun.all"), { "data-off": "none" }, () => this.switchOff([])));
    this.result = htmlElement("div", { class: "pronoun-result" });
    this.status = htmlElement("p", { class: "pronoun-written", role: "status" });
    root.append(mathElement("p", {}, say("explain.pronoun.text", { sentences: String(page.pronouns.sentences) })), label, this.rows, this.buttons, this.status, this.result);
    page.subscribe((changes) => ("pronounCase" in changes || "pronounOff" in changes) && this.draw());
    this.draw();
  }

  get facts() {
    return this.page.pronouns.cases[this.page.state.pronounCase] ?? this.page.pronouns.cases[0];
  }

  // Returns [layer, head] of the heads that are off.
  get off() {
    const { encoder_layers, sites } = this.page.model.settings;
    return String(this.page.state.pronounOff ?? "").split(",").filter(Boolean).map((name) => name.split(".").map(Number))
      .filter(([layer, head]) => layer >= 0 && layer < encoder_layers && head >= 0 && head < sites.encoder_self.heads);
  }

  // Returns the next of the sets of other heads after the one that is off.
  nextOthers() {
    const { sets } = this, now = nameHeads(this.off);
    return sets[(sets.findIndex((set) => nameHeads(set) === now) + 1) % sets.length];
  }

  switchOff(heads) {
    this.page.set({ pronounOff: nameHeads(heads) || null });
  }

  draw() {
    const { facts, off, page } = this, before = readPronoun(page.model, facts), now = off.length ? readPronoun(page.model, facts, off) : before;
    this.choice.value = page.pronouns.cases.indexOf(facts);
    keepPlace(this.rows, () => this.drawRows(facts, now, off));
    if (this.shown !== facts) this.revealNoun();
    this.shown = facts;
    this.drawResult(facts, before, now, off);
    this.write(facts, off);
  }

  // Draws a row for each head: a switch, and the weights of the pronoun's row on all tokens.
  drawRows(facts, { rows }, off) {
    const table = htmlElement("table"), head = htmlElement("tr"), top = htmlElement("thead"), body = htmlElement("tbody");
    head.append(htmlElement("th", { scope: "col" }, say("explain.pronoun.head")));
    facts.tokens.forEach((token, s) => {
      const title = htmlElement("th", { scope: "col", class: this.kindOf(facts, s) });
      title.append(drawToken(this.page, token, "source"));
      head.append(title);
    });
    head.append(htmlElement("th", { scope: "col", class: "count" }, say("explain.pronoun.count", { sentences: String(this.page.pronouns.sentences) })));
    top.append(head);
    rows.forEach((layer, l) => layer.forEach((weights, h) => {
      const row = htmlElement("tr"), name = `${l}.${h}`, isOff = off.some(([a, b]) => a === l && b === h);
      const points = this.page.pronouns.pointing.heads.some(([a, b]) => a === l && b === h), title = htmlElement("th", { scope: "row" });
      const button = makeButton(`${points ? "★ " : ""}${name}`, {
        "aria-pressed": String(isOff), "data-focus": `head ${name}`, "aria-label": say(points ? "explain.pronoun.switch.points" : "explain.pronoun.switch", { layer: String(l), head: String(h) }),
      }, () => this.switchOff(isOff ? off.filter(([a, b]) => a !== l || b !== h) : [...off, [l, h]]));
      title.append(button);
      row.append(title);
      row.classList.toggle("off", isOff);
      row.classList.toggle("points", points);
      const most = Math.max(...weights);
      weights.forEach((weight, s) => row.append(htmlElement("td", { class: this.kindOf(facts, s), style: `--weight: ${weight.toFixed(4)}`, title: formatNumber(weight) },
        weight === most || weight >= 0.1 ? formatNumber(weight) : "")));
      row.append(htmlElement("td", { class: "count" }, String(this.page.pronouns.pointing.counts[l][h])));
      body.append(row);
    }));
    const caption = htmlElement("caption");
    caption.append(htmlElement("span", {}, say("explain.pronoun.caption", { pronoun: facts.pronoun, noun: facts.nounText })));
    table.append(caption, top, body);
    this.rows.replaceChildren(table);
  }

  // Scrolls the rows, where they are wider than the window, so that the noun is beside the names of the heads.
  revealNoun() {
    const [name, noun] = this.rows.querySelectorAll("thead th:first-child, thead th.noun");
    this.rows.scrollLeft = noun.offsetLeft - name.offsetWidth - 4;
  }

  kindOf(facts, s) {
    if (s === facts.position) return "pronoun";
    return s >= facts.noun[0] && s < facts.noun[1] ? "noun" : null;
  }

  drawResult(facts, before, now, off) {
    const { page, sets } = this, { heads } = page.pronouns.pointing;
    const without = readPronoun(page.model, facts, heads), others = sets.map((set) => readPronoun(page.model, facts, set).right);
    const means = page.facts.measured.pronounMeans, table = htmlElement("table", { class: "shares" }), body = htmlElement("tbody"), top = htmlElement("tr");
    const share = (value) => {
      const cell = htmlElement("td");
      if (value === null || value === undefined) return cell;
      cell.className = "filled";
      cell.append(formatNumber(value, 3), htmlElement("span", { class: "length", style: `--share: ${value}` }));
      return cell;
    };
    const add = (name, text, value, mean) => {
      const row = htmlElement("tr", { "data-result": name });
      row.append(htmlElement("th", { scope: "row" }, text), share(value), ...(means ? [share(mean)] : []));
      body.append(row);
    };
    add("all", say("explain.pronoun.with"), before.right, means?.all);
    add("without", say("explain.pronoun.without", { heads: listHeads(heads) }), without.right, means?.without);
    if (others.length) add("others", say("explain.pronoun.control", { sets: String(sets.length) }), average(others), means?.others);
    if (off.length) add("now", say("explain.pronoun.now", { heads: listHeads(off) }), now.right, null);
    top.append(htmlElement("td"), htmlElement("th", { scope: "col" }, say("explain.pronoun.here")));
    if (means) top.append(htmlElement("th", { scope: "col" }, say("explain.pronoun.mean", { sentences: String(page.pronouns.sentences) })));
    table.append(htmlElement("thead"), body);
    table.tHead.append(top);
    const parts = [htmlElement("p", {}, say("explain.pronoun.probability", { right: facts.rightText, wrong: facts.wrongText })), table];
    if (facts.use === "subject") {
      const key = before.right < 0.5 ? "explain.pronoun.fails" : "explain.pronoun.subject";
      parts.push(htmlElement("p", { class: "pronoun-fails" }, say(key, { noun: facts.nounText, right: facts.rightText })));
    }
    this.result.replaceChildren(...parts);
  }

  // Writes the translation that the model gives, with the pronoun in it marked.
  async write(facts, off) {
    const { model, backend } = this.page, turn = this.turn = {};
    this.root.setAttribute("aria-busy", "true");
    const { ids } = await model.translate(facts.ids, encoderOff(off));
    if (this.turn !== turn) return; // there is a newer question
    this.root.removeAttribute("aria-busy");
    this.status.textContent = say("explain.pronoun.written", { translation: backend.subwords.decode(ids) });
  }
}

const nameHeads = (heads) => heads.map(([layer, head]) => `${layer}.${head}`).sort().join(",");

// Returns the names of heads as a list in the language of the page: "0.1 and 1.3".
function listHeads(heads) {
  return new Intl.ListFormat(say.language, { type: "conjunction" }).format(heads.map(([layer, head]) => `${layer}.${head}`));
}
