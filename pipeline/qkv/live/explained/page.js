"use strict";
// The frame of the explain page: its sections, its state, and the translation of the reader's sentence.
//
// A section is a file of this folder that defines `function drawNAME(page, root)`, and a line in SECTIONS. `root` is the
// element <section id="NAME">, whose heading says `explain.NAME.title` of words.csv. The function is called once, when
// `page.answer` is known; it appends its elements to `root`, may return a promise, and redraws them in `page.subscribe`. A section that has
// nothing to show for this run sets `root.hidden = true`.
//
//   page.model            the Transformer, see engine/transformer.js
//   page.backend          the model with its tokenizer, see engine/backend.js
//   page.facts            facts of the run, see `page_facts` in explain_page.py
//   page.state            strings by name. They are kept in the address after #, such as #sentence=...&row=3&section=plane
//   page.set(changes)     changes the state, null removes a value; promises the end. A new `sentence` is translated first
//   page.subscribe(f, names)  calls f(changes) after each change of the state, when `page.answer` fits it; f may return a
//                         promise. With `names`, it is called only if one of them has changed
//   page.answer           the translation of page.state.sentence, see `PageBackend.translation`
//   page.chosen           { site, layer, head, row, key }: the chosen head, row and key, valid for the sentence
//   page.inside()         every number of the chosen row, see `Transformer.inside`
//   page.sides()          { asks, predicts, keys }: the tokens of the chosen row, each { piece, side }
//   page.address(changes) the address of the page with a changed state, for links
//   page.find(name)       the element of the page with data-part=NAME
//
// The page is ready when `document.documentElement.dataset.ready` is "true".

const SECTIONS = [
  { name: "answer", draw: drawAnswer },
  { name: "steps", draw: drawSteps },
  { name: "changes", draw: drawChanges },
  { name: "plane", draw: drawPlane },
  { name: "sites", draw: drawSites },
  { name: "pronoun", draw: drawPronoun },
  { name: "unlearn", draw: drawUnlearn },
  { name: "questions", draw: drawQuestions },
];

const ROW_KEYS = ["sentence", "site", "layer", "head", "row"]; // what the chosen row depends on
const SENTENCE_KEYS = ["site", "layer", "head", "row", "key", "coordinate"]; // forgotten when the sentence changes

const SETTLED_MILLISECONDS = 150;

class ExplainedPage {
  constructor(backend, facts) {
    Object.assign(this, { backend, facts, model: backend.model, state: {}, answer: null, listeners: [], asked: 0, pending: {} });
    this.turn = Promise.resolve(); // the end of the last change
  }

  find(name) {
    return document.querySelector(`[data-part=${name}]`);
  }

  subscribe(listen, names = null) {
    this.listeners.push((changes) => (!names || names.some((name) => name in changes) ? listen(changes) : null));
  }

  set(changes) {
    this.turn = this.change(changes);
    return this.turn;
  }

  async change(changes) {
    const forgotten = "sentence" in changes && changes.sentence !== this.state.sentence ? SENTENCE_KEYS : [];
    for (const [name, value] of [...forgotten.map((name) => [name, null]), ...Object.entries(changes)]) {
      if (value === null || value === undefined) delete this.state[name];
      else this.state[name] = String(value);
      this.pending[name] = value;
    }
    this.write();
    if ("sentence" in changes && changes.sentence !== this.answer?.asked) {
      const number = ++this.asked;
      this.tell("");
      const answer = this.hasWords(this.state.sentence) ? await this.backend.translation(this.state.sentence) : this.tell(say("explain.nothing"));
      if (number !== this.asked) return; // a later sentence is on its way
      if (answer) this.answer = { ...answer, asked: changes.sentence, clearest: {} };
    }
    const told = this.pending;
    this.pending = {};
    this.found = null; // what is chosen is found anew
    await Promise.all(this.listeners.map((listen) => listen(told)));
  }

  hasWords(text) {
    try {
      return this.backend.readText(text).ids.length > 1; // the end alone is no word
    } catch {
      return false;
    }
  }

  // Shows a message below the sentence; an empty one removes it.
  tell(text) {
    const status = this.find("status");
    if (status) status.textContent = text;
  }

  address(changes) {
    const state = { ...this.state, ...changes }, names = Object.keys(state).filter((name) => state[name] !== null && state[name] !== undefined);
    return `#${new URLSearchParams(names.map((name) => [name, String(state[name])]))}`;
  }

  // Writes the state into the address, soon: browsers refuse an address that changes with every movement of a hand.
  write() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.writeNow(), SETTLED_MILLISECONDS);
  }

  writeNow() {
    clearTimeout(this.timer);
    try {
      history.replaceState(null, "", this.address({}));
    } catch {
      // The page is in a frame without an address, or there were too many changes all the same.
    }
  }

  get chosen() {
    this.found ??= this.chosenAt(Object.hasOwn(this.facts.layers, this.state.site ?? "") ? this.state.site : "cross");
    return this.found;
  }

  // Returns what is chosen at a site. If the state is about another site, that is the clearest head and the last word.
  chosenAt(site) {
    const { facts, answer } = this, state = (this.state.site ?? "cross") === site ? this.state : {};
    const number = (name, count, fallback) => {
      const value = Number(state[name] ?? NaN);
      return Number.isInteger(value) && value >= 0 && value < count ? value : fallback();
    };
    const layer = number("layer", facts.layers[site], () => facts.layers[site] - 1), side = site === "encoder_self" ? "source" : "target";
    const head = number("head", facts.heads, () => (answer.clearest[`${site}/${layer}`] ??= clearestHead(this, site, layer)));
    const row = number("row", answer[side].ids.length, () => firstRow(answer[side].pieces));
    const weights = this.weights(site, layer, head)[row].slice(0, site === "decoder_self" ? row + 1 : undefined), key = number("key", weights.length, () => weights.indexOf(Math.max(...weights)));
    return { site, layer, head, row, key };
  }

  // Returns every number of the chosen row. The last one is kept.
  inside() {
    const { site, layer, head, row } = this.chosen, { source, target } = this.answer, name = [site, layer, head, row].join();
    if (this.kept?.answer !== this.answer || this.kept.name !== name) {
      this.kept = { answer: this.answer, name, facts: this.model.inside(source.ids, target.ids, { site, layer, head, row }) };
    }
    return this.kept.facts;
  }

  // Returns the tokens of the chosen row as { piece, side }. A row of the decoder asks before its token is written, from
  // the token before it.
  sides({ site, row } = this.chosen) {
    const { source, target } = this.answer, written = [{ piece: "<s>", side: "target" }, ...target.pieces.map((piece) => ({ piece, side: "target" }))];
    const read = source.pieces.map((piece) => ({ piece, side: "source" }));
    return {
      asks: site === "encoder_self" ? read[row] : written[row], predicts: site === "encoder_self" ? null : written[row + 1],
      keys: site === "decoder_self" ? written.slice(0, row + 1) : read,
    };
  }

  // Returns the weights of a head as rows; those of the decoder's own attention are zero above the diagonal.
  weights(site, layer, head) {
    const { source, target, attention } = this.answer, columns = site === "decoder_self" ? target.ids.length : source.ids.length;
    const rows = site === "encoder_self" ? source.ids.length : target.ids.length;
    return Array.from({ length: rows }, (_, row) => [...attention[site][layer].subarray((head * rows + row) * columns, (head * rows + row + 1) * columns)]);
  }
}

const FIRST_ROW_COUNTS = 3; // as many rows as the row with which the page begins

// Returns the head to begin with: the one whose values most often say alone what is written, where its weights point;
// then the one whose rows point at the most keys.
function clearestHead(page, site, layer) {
  const { source, target } = page.answer, heads = [...Array(page.facts.heads).keys()], places = heads.map((head) => {
    return page.weights(site, layer, head).map((line) => line.indexOf(Math.max(...line)));
  });
  const clarity = heads.map((head) => {
    const said = site === "cross" ? page.model.inside(source.ids, target.ids, { site, layer, head, row: 0 }).alone : [];
    const right = places[head].map((key, row) => said[key] === target.ids[row]), first = right[firstRow(target.pieces)] ? FIRST_ROW_COUNTS : 0;
    return right.filter(Boolean).length + first + new Set(places[head]).size / 1000;
  });
  return clarity.indexOf(Math.max(...clarity));
}

// Returns the last row whose token is a word.
function firstRow(pieces) {
  const place = pieces.slice(0, -1).findLastIndex((piece) => /\p{L}/u.test(piece));
  return Math.max(0, place);
}

// Returns the words of a key as nodes, with an element for each {name}.
function saidWith(key, elements) {
  const marks = Object.fromEntries(Object.keys(elements).map((name) => [name, `\u0000${name}\u0000`]));
  return say(key, marks).split("\u0000").map((piece, place) => (place % 2 ? elements[piece] : piece));
}

// Returns the state in the address. Addresses are untrusted input: values are strings, which each reader checks. A short
// address, such as #plane or #question=7, leads to its section.
function readState(page) {
  const name = location.hash.slice(1), isSection = SECTIONS.some((section) => section.name === name);
  const asked = isSection ? { section: name } : Object.fromEntries(new URLSearchParams(name));
  const section = "question" in asked ? "questions" : "unlearn" in asked ? "unlearn" : null;
  return { sentence: page.facts.examples[0], ...(section ? { section } : {}), ...asked };
}

// Draws the sections and the list of contents.
async function drawSections(page) {
  for (const { name, draw } of SECTIONS) {
    const section = htmlElement("section", { id: name, "aria-labelledby": `${name}-title` });
    section.append(htmlElement("h2", { id: `${name}-title` }, say(`explain.${name}.title`)));
    page.find("main").append(section);
    await draw(page, section);
    if (section.hidden) continue;
    const link = htmlElement("a", { href: `#${name}`, "data-section": name }, say(`explain.${name}.title`));
    link.addEventListener("click", (event) => {
      event.preventDefault();
      page.set({ section: name });
    });
    page.find("contents").append(link);
  }
}

// Scrolls to the section that the state names, and marks it in the contents.
function showSection(page, scroll) {
  const section = document.getElementById(page.state.section ?? "");
  for (const link of page.find("contents").children) {
    if (link.dataset.section === section?.id) {
      link.setAttribute("aria-current", "true");
      page.find("contents").scrollLeft = link.offsetLeft - page.find("contents").offsetLeft;
    } else link.removeAttribute("aria-current");
  }
  if (scroll && SECTIONS.some(({ name }) => name === section?.id)) section.scrollIntoView();
}

// Keeps the name of the section that is read in the state, so that the address leads back to it.
function followReading(page) {
  const observer = new IntersectionObserver((entries) => {
    const seen = entries.find(({ isIntersecting }) => isIntersecting);
    if (!seen || seen.target.id === page.state.section) return;
    page.state.section = seen.target.id;
    page.write();
    showSection(page, false);
  }, { rootMargin: "-30% 0px -69% 0px" });
  for (const { name } of SECTIONS) observer.observe(document.getElementById(name));
}

function fillFrame(page) {
  const { facts } = page;
  document.documentElement.lang = pageLanguage();
  document.title = `${say("explain.heading")} ${facts.name}`;
  sayAll(document);
  page.find("facts").textContent = say("explain.facts", {
    name: facts.name, source: facts.languages.source, target: facts.languages.target, parameters: facts.parameters,
  });
  for (const language of LANGUAGES) {
    const link = htmlElement("a", { href: `?lang=${language}`, lang: language, hreflang: language }, language);
    if (language === pageLanguage()) link.setAttribute("aria-current", "true");
    link.addEventListener("click", () => { link.href = `?lang=${language}${location.hash}`; });
    page.find("languages").append(link);
  }
  document.addEventListener("click", () => page.writeNow(), true); // a link or the copied address must not be overtaken
  listenToCopy(page.find("copy"), page.find("copied"));
}

async function openExplained(makeBackend) {
  const facts = JSON.parse(document.getElementById("facts").textContent), backend = await makeBackend(facts).catch(() => { throw new Error(say("explain.damaged")); });
  document.getElementById("notice").remove();
  const page = new ExplainedPage(backend, facts);
  globalThis.explained = page; // for the console
  fillFrame(page);
  await page.set(readState(page));
  if (!page.answer) await page.set({ sentence: facts.examples[0] });
  await drawSections(page);
  page.subscribe((changes) => showSection(page, "section" in changes));
  showSection(page, true);
  followReading(page);
  addEventListener("hashchange", () => page.set({ ...Object.fromEntries(Object.keys(page.state).map((name) => [name, null])), ...readState(page) }));
  document.documentElement.dataset.ready = "true";
}

// Opens the page. If that fails, a message stands in its place.
function startExplained(makeBackend) {
  openExplained(makeBackend).catch(({ message }) => {
    document.querySelector("main").replaceChildren(htmlElement("p", { class: "warning", role: "alert" }, say("explain.broken", { message })));
    document.documentElement.dataset.ready = "true";
  });
}
