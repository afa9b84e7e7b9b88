"use strict";
// The panel of a live page: the form for sentences, the questions to the backend, and the state of all translations.

// Returns a text as one line.
const asLine = (text) => text.replace(/\s+/g, " ").trim();

const SEVERAL = /\p{STerm}\p{P}*\s+\p{L}|[。！？]\p{P}*\p{L}|\n/u; // matches a text that probably has several sentences
const NOT_INSTALLED = "The text was read as one sentence: the package sentencex, which divides texts into sentences, is not installed.";
const NOT_DIVIDED = "The text was read as one sentence: a page with the model inside cannot divide texts into sentences.";

class Panel {
  // `root`: the element that contains panel.html.
  constructor(viewer, backend, root) {
    this.viewer = viewer;
    this.store = viewer.store;
    this.backend = backend;
    this.find = (name) => root.querySelector(`[data-part=${name}]`);
    this.cases = new Map();
    this.columns = backend.runs.map((_, run) => ({ run, changed: false })); // the run of each column of the viewer
    this.turn = Promise.resolve(); // the end of the last task; tasks run one after the other
    this.fillForm();
    decorateSwitches(viewer, {
      kinds: backend.changes,
      columns: (column) => this.columns[column],
      edits: (run, site) => (site in backend.runs[run].heads ? this.case?.edits[run] : null),
      set: (run, site, places, change) => this.edit(run, (edits) => edits.setHeads(site, places, change)),
    });
    this.view = new CaseView(this);
    viewer.addPanel((section, place) => {
      this.view.drawBelow(section, place);
      this.view.drawWhy(section, place);
    });
    this.store.subscribe((changes) => {
      if (["id", "sentences", "site", "layer", "head"].some((key) => key in changes)) this.draw();
    });
  }

  get case() {
    return this.cases.get(this.store.state.id) ?? null;
  }

  // Returns the index of the last layer of the shown site.
  lastLayer() {
    return Math.max(0, this.store.size()[0] - 1);
  }

  // Returns [layer, head] of all heads of a layer of the shown site.
  layerHeads(layer) {
    return [...Array(this.store.size()[1]).keys()].map((head) => [layer, head]);
  }

  // Returns whether the runs probably know a sentence of the tour: more than half of its words are in the examples.
  knows(sentence) {
    const words = new Set(this.backend.examples.flatMap((example) => example.split(" ")));
    const wanted = sentence.split(" ");
    return wanted.filter((word) => words.has(word)).length > wanted.length / 2;
  }

  fillForm() {
    const form = this.find("form"), beam = this.find("beam"), examples = this.find("examples");
    for (const size of this.backend.beams) beam.append(htmlElement("option", { value: size }, size === 1 ? "greedy" : `beam ${size}`));
    beam.closest("label").hidden = this.backend.beams.length < 2;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.find("text").value);
    });
    this.find("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.ask(this.find("text").value);
      }
    });
    for (const example of this.backend.examples) examples.append(htmlElement("option", { value: example }, example));
    examples.closest("label").hidden = this.backend.examples.length === 0;
    examples.addEventListener("change", () => {
      if (!examples.value) return;
      this.ask(examples.value);
      examples.value = "";
    });
    this.find("link").addEventListener("click", () => this.copyLink());
    this.find("save").hidden = !this.backend.save;
    this.find("save").addEventListener("click", () => this.save());
  }

  tell(text, kind = "") {
    const status = this.find("status");
    status.textContent = text;
    status.className = kind;
  }

  // Runs a task, an async function, after the earlier tasks. Shows its result if that is a text, or the message of its
  // error.
  enqueue(name, task) {
    const run = async () => {
      this.find("form").setAttribute("aria-busy", "true");
      this.tell(name);
      try {
        const result = await task();
        this.tell(typeof result === "string" ? result : "");
      } catch (error) {
        this.tell(error.message, "warning");
      } finally {
        this.find("form").removeAttribute("aria-busy");
      }
    };
    this.turn = this.turn.then(run);
    return this.turn;
  }

  request(question) {
    return this.backend.answer(question, (text) => this.tell(text));
  }

  // Translates a text with every run. The text is divided into sentences if the backend can do that. `edits`: the
  // `Edits` of each run, from a link; the text is then one sentence. null for none.
  ask(text, { beam = Number(this.find("beam").value), edits = null } = {}) {
    const divides = this.backend.divide && !edits, typed = divides ? text.trim() : asLine(text);
    if (!typed) {
      this.tell("Type a sentence first.");
      return this.turn;
    }
    this.find("text").value = typed;
    return this.enqueue("translating …", async () => {
      const divided = divides ? await this.backend.divide(typed) : null, { sentences, spaces } = divided ?? { sentences: [typed], spaces: [] };
      const paragraph = { cases: [], spaces }, lines = sentences.map(asLine);
      for (const [place, line] of lines.entries()) {
        if (lines.length > 1) this.tell(`translating sentence ${place + 1} of ${lines.length} …`);
        if (line) await this.translate(line, beam, paragraph);
        else paragraph.cases.push(null);
      }
      const asked = paragraph.cases.filter(Boolean);
      for (const [run, edit] of (edits ?? []).entries()) {
        if (edit.empty) continue;
        asked[0].edits[run] = edit;
        await this.change(asked[0], run);
      }
      const difference = asked.flatMap(({ original }) => original.map((facts) => facts.difference)).find(Boolean);
      const warnings = difference ? [`The run was trained on other text: ${difference}.`] : [];
      if (!divided && !edits && SEVERAL.test(text.trim())) warnings.push(this.backend.divide ? NOT_INSTALLED : NOT_DIVIDED);
      return warnings.join(" ");
    });
  }

  // Translates a sentence with every run, and adds it to a paragraph. The first sentence of the paragraph is shown.
  async translate(line, beam, paragraph) {
    const asked = new Case(this.cases.size, line, beam, this.backend.runs.length, paragraph);
    for (const [run, { name }] of this.backend.runs.entries()) {
      if (this.backend.runs.length > 1) this.tell(`translating with ${name} …`);
      asked.original[run] = await this.request(asked.question(run));
    }
    this.cases.set(asked.id, asked);
    paragraph.cases.push(asked);
    asked.original.forEach((facts, run) => this.show(asked, run, false, facts));
    if (paragraph.cases.length === 1) this.store.select(asked.id);
  }

  // Calls `change(edits)` with the edits of the shown sentence, and translates the sentence again.
  edit(run, change) {
    const asked = this.case;
    return this.enqueue("translating with the change …", async () => {
      change(asked.edits[run]);
      await this.change(asked, run);
    });
  }

  async change(asked, run) {
    const edits = asked.edits[run];
    asked.changed[run] = edits.empty ? null : await this.request(asked.question(run, edits));
    if (asked.token?.changed) asked.token = null;
    if (edits.empty) this.store.removeSentence(this.changedColumn(run), asked.id);
    else this.show(asked, run, true, asked.changed[run]);
  }

  show(asked, run, changed, facts) {
    const column = changed ? this.changedColumn(run) : run;
    Object.assign(this.store.runs[column], { units: facts.units });
    const reference = changed ? asked.original[run].sentence.hypothesis : null;
    this.store.addSentence(column, { ...facts.sentence, id: asked.id, reference }, facts.weights);
  }

  // Returns the index of the viewer's column for changed translations of a run. Adds the column when it is first
  // needed.
  changedColumn(run) {
    const index = this.columns.findIndex((column) => column.run === run && column.changed);
    if (index >= 0) return index;
    const { name, sites, units } = this.backend.runs[run];
    this.columns.push({ run, changed: true });
    return this.store.addRun({ name: `${name}, changed`, sites, units, sentences: [] });
  }

  // Draws the shown sentence: its translations, their tokens, and the effect of edits.
  draw() {
    const asked = this.case, parts = this.find("case");
    this.find("actions").hidden = !asked;
    if (!asked) return parts.replaceChildren();
    keepPlace(parts, () => parts.replaceChildren(...this.backend.runs.flatMap((_, run) => this.view.drawRun(asked, run))));
  }

  // Shows another translation of the n-best list, and its attention.
  showOther(asked, run, translation) {
    return this.enqueue("reading that translation …", async () => {
      const { nBest } = asked.original[run];
      const facts = await this.request(asked.questionOf(run, translation, false));
      asked.original[run] = { ...facts, nBest };
      asked.edits[run] = new Edits();
      asked.changed[run] = null;
      asked.token = null;
      this.store.removeSentence(this.changedColumn(run), asked.id);
      this.show(asked, run, false, asked.original[run]);
    });
  }

  chooseToken(asked, run, changed, place) {
    asked.token = place === null ? null : { run, changed, place };
    this.draw();
    this.find("case").querySelector(`.token[aria-pressed=true]`)?.focus();
  }

  async copyLink() {
    const address = linkTo(this.case);
    history.replaceState(null, "", address);
    const copied = await navigator.clipboard?.writeText(address).then(() => true, () => false);
    this.tell(`The address of this page now holds the sentence and the changes${copied ? "; it was copied" : ""}.`);
  }

  save() {
    const answers = this.case.original.concat(this.case.changed).filter(Boolean).map((facts) => facts.answer);
    return this.enqueue("saving …", async () => `Saved in ${(await this.backend.save(answers)).join(" and ")}`);
  }
}

// Opens the panel. The page holds its facts in the element #live; `makeBackend(facts)` promises the backend.
async function openPanel(makeBackend) {
  const fragment = location.hash; // read before the viewer replaces it
  const root = document.getElementById("extension");
  const backend = await makeBackend(JSON.parse(document.getElementById("live").textContent));
  await viewer.ready;
  document.getElementById("notice")?.remove();
  const panel = new Panel(viewer, backend, root), asked = readLink(fragment, backend);
  globalThis.livePanel = panel; // for the console
  new Tour(panel, panel.find("tour"), panel.find("start-tour"));
  if (asked) await panel.ask(asked.text, asked);
  else if (backend.examples.length) await panel.ask(backend.examples[0]);
  panel.find("text").focus();
  root.dataset.ready = "true";
}

// Opens the panel. If that fails, a message replaces the form.
function startPanel(makeBackend) {
  openPanel(makeBackend).catch(({ message }) => {
    document.getElementById("extension").replaceChildren(htmlElement("p", { class: "warning", role: "alert" }, `This page cannot translate: ${message}.`));
  });
}
