"use strict";
// The panel of a live page: the form for sentences, the questions to the backend, and the state of all translations.

// Returns a text as one line.
const asLine = (text) => text.replace(/\s+/g, " ").trim();

const SEVERAL = /\p{STerm}\p{P}*\s+\p{L}|[。！？]\p{P}*\p{L}|\n/u; // matches a text that probably has several sentences

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
    this.lost = new Map(); // "run/site/layer/head" -> {changed, tried}: the examples that change without the head
    this.arrange();
    this.fillForm();
    viewer.decorateHeads((button, place) => this.nameHead(button, place));
    decorateSwitches(viewer, {
      kinds: backend.changes,
      columns: (column) => this.columns[column],
      edits: (run, site) => (site in backend.runs[run].heads ? this.case?.edits[run] : null),
      set: (run, site, places, change) => this.edit(run, (edits) => edits.setHeads(site, places, change)),
    });
    this.view = new CaseView(this);
    viewer.addPanel((section, place) => this.view.drawSection(section, place));
    viewer.store.listeners.unshift((changes) => this.followChoice(changes)); // before the viewer draws
    this.store.subscribe((changes) => {
      if (["id", "sentences"].some((key) => key in changes)) this.draw();
      if ("words" in changes || "id" in changes) this.showUnknown();
    });
  }

  get case() {
    return this.cases.get(this.store.state.id) ?? null;
  }

  // Puts the controls of the viewer into one row, and behind "more" the list of sentences and what is rarely needed.
  arrange() {
    const shown = this.find("shown"), more = this.find("more"), parts = this.find("more-parts");
    shown.prepend(document.getElementById("controls"));
    parts.append(document.getElementById("texts"), document.querySelector("nav"));
    const open = (isOpen) => {
      parts.hidden = !isOpen;
      more.setAttribute("aria-expanded", String(isOpen));
      document.getElementById("extension").classList.toggle("with-more", isOpen);
    };
    more.addEventListener("click", () => open(parts.hidden));
    document.addEventListener("keydown", (event) => {
      if (event.key === "/" && !event.target.matches?.("input, textarea, select")) open(true); // the search is there
    }, { capture: true });
  }

  // Forgets the chosen token when another sentence is shown or no row is pinned.
  followChoice(changes) {
    if (this.case && (("pin" in changes && changes.pin === null) || "id" in changes)) this.case.chosen = null;
  }

  fillForm() {
    const form = this.find("form"), beam = this.find("beam"), examples = this.find("examples");
    for (const size of this.backend.beams) beam.append(htmlElement("option", { value: size }, size === 1 ? say("live.greedy") : say("live.beam", { size })));
    beam.closest("label").hidden = this.backend.beams.length < 2;
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask(this.find("text").value);
    });
    this.find("text").addEventListener("input", () => markField(this.find("text"), this.find("marks"), []));
    this.find("text").addEventListener("scroll", ({ target }) => { this.find("marks").scrollTop = target.scrollTop; });
    this.find("text").addEventListener("keydown", (event) => {
      if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        this.ask(this.find("text").value);
      }
    });
    for (const example of this.backend.examples) examples.append(htmlElement("option", { value: example }, example));
    examples.hidden = this.backend.examples.length === 0;
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
      this.tell(say("live.type_first"));
      return this.turn;
    }
    this.find("text").value = typed;
    return this.enqueue(say("live.translating"), async () => {
      const divided = divides ? await this.backend.divide(typed) : null, { sentences, spaces } = divided ?? { sentences: [typed], spaces: [] };
      const paragraph = { cases: [], spaces }, lines = sentences.map(asLine);
      for (const [place, line] of lines.entries()) {
        if (lines.length > 1) this.tell(say("live.translating.sentence", { place: place + 1, all: lines.length }));
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
      const warnings = [...this.showUnknown(), ...(difference ? [say("live.other_text", { difference })] : [])];
      if (!divided && !edits && SEVERAL.test(text.trim())) warnings.push(say(this.backend.divide ? "live.not_installed" : "live.not_divided"));
      return warnings.join(" ");
    });
  }

  // Shows a sentence without changes: as it has been translated before, or translated now.
  showAgain(text) {
    const beam = this.backend.beams[0];
    const known = [...this.cases.values()].find((asked) => asked.text === asLine(text) && asked.beam === beam && asked.edits.every(({ empty }) => empty));
    if (!known || known.paragraph.spaces.length) return this.ask(text, { beam });
    this.find("text").value = known.text;
    this.store.select(known.id);
    return this.turn;
  }

  // Translates a sentence with every run, and adds it to a paragraph. The first sentence of the paragraph is shown.
  async translate(line, beam, paragraph) {
    const asked = new Case(this.cases.size, line, beam, this.backend.runs.length, paragraph);
    for (const [run, { name }] of this.backend.runs.entries()) {
      if (this.backend.runs.length > 1) this.tell(say("live.translating.run", { run: name }));
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
    return this.enqueue(say("live.translating.change"), async () => {
      change(asked.edits[run]);
      await this.change(asked, run);
    });
  }

  async change(asked, run) {
    const edits = asked.edits[run];
    asked.changed[run] = edits.empty ? null : await this.request(asked.question(run, edits));
    if (asked.chosen && this.columns[asked.chosen.column].changed) asked.chosen = null;
    if (edits.empty) this.store.removeSentence(this.changedColumn(run), asked.id);
    else this.show(asked, run, true, asked.changed[run]);
  }

  show(asked, run, changed, facts) {
    const column = changed ? this.changedColumn(run) : run;
    Object.assign(this.store.runs[column], { units: facts.units });
    const reference = changed ? asked.original[run].sentence.hypothesis : null;
    this.store.addSentence(column, { ...facts.sentence, id: asked.id, reference }, facts.weights);
  }

  // Returns the number of pictures side by side.
  columnCount() {
    return this.case ? this.backend.runs.length + this.case.changed.filter(Boolean).length : 0;
  }

  // Writes below the picture of a head what tells it apart.
  nameHead(button, { run: column, site, layer, head }) {
    const run = this.backend.runs[this.columns[column]?.run], label = button.querySelector(".type");
    const profile = run && head !== "mean" ? profileOf(run, site, layer, head) : null;
    if (label && profile) label.textContent = shortProfile(profile) ?? label.textContent;
    if (!profile) return;
    const name = say("live.named", { name: say("live.one_head", { layer, head }), text: describeProfile(profile) });
    button.title = name;
    button.setAttribute("aria-label", name);
  }

  // Returns the index of the viewer's column for changed translations of a run. Adds the column when it is first
  // needed.
  changedColumn(run) {
    const index = this.columns.findIndex((column) => column.run === run && column.changed);
    if (index >= 0) return index;
    const { name, sites, units } = this.backend.runs[run];
    this.columns.push({ run, changed: true });
    return this.store.addRun({ name: say("live.of_run", { which: say("live.changed"), run: name }), sites, units, sentences: [] });
  }

  // Draws what concerns the sentence with all its pictures.
  draw() {
    const asked = this.case, parts = this.find("case");
    for (const part of ["link", "save"]) this.find(part).hidden = !asked || (part === "save" && !this.backend.save);
    const lists = asked ? asked.original.map((facts, run) => (facts.nBest.length > 1 ? this.view.drawNBest(asked, run, facts) : null)) : [];
    document.getElementById("runs").dataset.columns = this.columnCount();
    keepPlace(parts, () => parts.replaceChildren(...(asked ? this.view.drawCase(asked) : [])));
    keepPlace(this.find("n-best"), () => this.find("n-best").replaceChildren(...lists.filter(Boolean)));
  }

  // Marks the words in the field that the first run does not know. Returns sentences that name them.
  showUnknown() {
    const field = this.find("text"), asked = this.case;
    if (!asked) return [];
    const of = (shown) => unknownWords(shown.original[0].sentence, shown.original[0].units.source, this.backend.runs[0].splitWords);
    const unknown = asked.paragraph.cases.filter(Boolean).filter((shown) => shown.original[0]).flatMap(of);
    const ranges = unknownRanges(field.value, unknown);
    markField(field, this.find("marks"), ranges);
    const named = [...new Set(ranges.filter(({ kind }) => kind !== "character").map(({ word }) => say("live.quoted", { word })))]; // missing characters are named otherwise
    return named.length ? [say("live.unknown", { words: named.join(", ") })] : [];
  }

  // Shows another translation of the n-best list, and its attention.
  showOther(asked, run, translation) {
    return this.enqueue(say("live.reading"), async () => {
      const { nBest } = asked.original[run];
      const facts = await this.request(asked.questionOf(run, translation, false));
      asked.original[run] = { ...facts, nBest };
      asked.edits[run] = new Edits();
      asked.changed[run] = null;
      asked.chosen = null;
      this.store.removeSentence(this.changedColumn(run), asked.id);
      this.show(asked, run, false, asked.original[run]);
    });
  }

  // Chooses the row of a token of the translation in a column of the viewer, or takes the choice back.
  chooseToken(column, place) {
    const asked = this.case, { store } = this, { sentence } = asked.facts(this.columns[column].run, this.columns[column].changed);
    const isTarget = store.sites[store.state.site].axes[0] === "target", view = store.state.view === "grid" ? { view: "matrix" } : {};
    if (isTarget && this.view.chosenColumn() === column && this.view.chosenToken(column, sentence) === place) {
      store.set({ pin: null });
      return;
    }
    if (!isTarget) store.set({ site: "cross" });
    if (!this.view.groups(column, sentence, "rows").some((group) => group.includes(place))) store.set({ hideEos: false });
    const row = this.view.groups(column, sentence, "rows").findIndex((group) => group.includes(place));
    asked.chosen = { column, place };
    store.set({ pin: `r${row}`, ...view });
  }

  async copyLink() {
    const address = linkTo(this.case);
    history.replaceState(null, "", address);
    const copied = await navigator.clipboard?.writeText(address).then(() => true, () => false);
    this.tell(say(copied ? "live.link.copied" : "live.link.held"));
  }

  save() {
    const answers = this.case.original.concat(this.case.changed).filter(Boolean).map((facts) => facts.answer);
    return this.enqueue(say("live.saving"), async () => say("live.saved", { folders: (await this.backend.save(answers)).join(", ") }));
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
  panel.tour = new Tour(panel, panel.find("tour"), panel.find("start-tour"));
  if (asked) await panel.ask(asked.text, asked);
  else if (backend.examples.length) await panel.ask(backend.examples[0]);
  panel.find("text").focus({ preventScroll: true });
  root.dataset.ready = "true";
}

// Opens the panel. If that fails, a message replaces the form.
function startPanel(makeBackend) {
  openPanel(makeBackend).catch(({ message }) => {
    document.getElementById("extension").replaceChildren(htmlElement("p", { class: "warning", role: "alert" }, say("live.cannot", { message })));
  });
}
