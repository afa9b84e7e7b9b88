"use strict";
// The panel of a live page: a sentence is typed, translated, changed, and compared with what it was.

class Panel {
  // `root`: the element with the panel's HTML, see panel.html.
  constructor(viewer, backend, root) {
    this.viewer = viewer;
    this.store = viewer.store;
    this.backend = backend;
    this.find = (name) => root.querySelector(`[data-part=${name}]`);
    this.cases = new Map();
    this.columns = backend.runs.map((_, run) => ({ run, changed: false })); // of the viewer
    this.turn = Promise.resolve(); // questions are asked one after the other
    this.fillForm();
    decorateSwitches(viewer, {
      columns: (column) => this.columns[column],
      edits: (run) => this.case.edits[run],
      clicking: () => this.find("clicking").checked,
      toggle: (run, site, layer, head) =>
        this.edit(run, (edits) => edits.setHeads(site, [[layer, head]], edits.changeOf(site, layer, head) ? null : "zeroed")),
    });
    viewer.addPanel((section, place) => this.drawBelow(section, place));
    this.store.subscribe((changes) => {
      if ("id" in changes || "sentences" in changes) this.draw();
    });
  }

  get case() {
    return this.cases.get(this.store.state.id) ?? null;
  }

  // The last layer of the shown site.
  lastLayer() {
    return Math.max(0, this.store.size()[0] - 1);
  }

  // The places of all heads of a layer of the shown site.
  layerHeads(layer) {
    return [...Array(this.store.size()[1]).keys()].map((head) => [layer, head]);
  }

  // Whether a run can be expected to know a sentence of the tour: its examples have most of its words.
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
    this.find("clicking").closest("label").hidden = this.backend.changes.length === 0;
  }

  tell(text, kind = "") {
    const status = this.find("status");
    status.textContent = text;
    status.className = kind;
  }

  // Runs a task after those before it; whatever it throws is told.
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

  // Translates a sentence with every run, and applies `edits`, one a run, where they are given.
  ask(text, { beam = Number(this.find("beam").value), edits = [] } = {}) {
    const line = text.replace(/\s+/g, " ").trim();
    if (!line) {
      this.tell("Type a sentence first.");
      return this.turn;
    }
    this.find("text").value = line;
    return this.enqueue("translating …", async () => {
      const asked = new Case(this.cases.size, line, beam, this.backend.runs.length);
      for (const [run, { name }] of this.backend.runs.entries()) {
        if (this.backend.runs.length > 1) this.tell(`translating with ${name} …`);
        asked.original[run] = await this.request(asked.question(run));
      }
      this.cases.set(asked.id, asked);
      asked.original.forEach((facts, run) => this.show(asked, run, false, facts));
      this.store.select(asked.id);
      for (const [run, edit] of edits.entries()) {
        if (edit.empty) continue;
        asked.edits[run] = edit;
        await this.change(asked, run);
      }
      return asked.original.map((facts) => facts.difference).filter(Boolean).map((why) => `The run was trained on other text: ${why}.`)[0];
    });
  }

  // Changes the edits of the shown sentence by `change(edits)`, and translates it anew.
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

  // The viewer's column for changed translations of a run, made when it is first needed.
  changedColumn(run) {
    const found = this.columns.findIndex((column) => column.run === run && column.changed);
    if (found >= 0) return found;
    const { name, sites, units } = this.backend.runs[run];
    this.columns.push({ run, changed: true });
    return this.store.addRun({ name: `${name}, changed`, sites, units, sentences: [] });
  }

  // Draws what belongs to the shown sentence: its translations, their tokens, and what edits did.
  draw() {
    const asked = this.case, parts = this.find("case");
    this.find("actions").hidden = !asked;
    if (!asked) return parts.replaceChildren();
    parts.replaceChildren(...this.backend.runs.flatMap((_, run) => this.drawRun(asked, run)));
  }

  drawRun(asked, run) {
    const parts = [], several = this.backend.runs.length > 1, name = this.backend.runs[run].name;
    for (const changed of [false, true]) {
      const facts = asked.facts(run, changed);
      if (!facts) continue;
      const title = [several ? name : "", changed ? "changed" : several ? "" : "tokens"].filter(Boolean).join(", ");
      const row = htmlElement("div", { class: "translation" }), token = asked.token;
      const chosen = token?.run === run && token.changed === changed ? token.place : null;
      row.append(htmlElement("span", { class: "name" }, title));
      row.append(drawTokens(facts, chosen, (place) => this.chooseToken(asked, run, changed, place)));
      parts.push(row);
      if (chosen !== null) parts.push(this.drawToken(asked, run, changed, chosen));
      if (!changed && facts.nBest.length > 1) parts.push(this.drawNBest(asked, run, facts));
    }
    const edits = asked.edits[run];
    if (!edits.empty || edits.past.length) parts.push(this.drawEdits(asked, run, edits));
    if (asked.changed[run]) parts.push(drawComparison(asked.original[run], asked.changed[run]));
    return parts;
  }

  drawEdits(asked, run, edits) {
    const line = htmlElement("div", { class: "edits" });
    for (const { text, remove } of edits.describe()) {
      const chip = htmlElement("button", { type: "button", class: "chip", title: "take this back" }, `${text} ×`);
      chip.addEventListener("click", () => this.edit(run, remove));
      line.append(chip);
    }
    const button = (text, change, disabled) => {
      const element = htmlElement("button", { type: "button", disabled }, text);
      element.addEventListener("click", () => this.edit(run, change));
      line.append(element);
    };
    button("Undo", (edits) => edits.undo(), edits.past.length === 0);
    button("Undo all", (edits) => edits.clear(), edits.empty);
    return line;
  }

  drawNBest(asked, run, facts) {
    const box = htmlElement("details", { class: "n-best" }), list = htmlElement("ol", {});
    box.append(htmlElement("summary", {}, `${facts.nBest.length} translations, the best first`), list);
    for (const one of facts.nBest) {
      const item = htmlElement("li", {}), current = one.ids.join() === facts.ids.join();
      const button = htmlElement("button", { type: "button", dir: "auto", "aria-current": current ? "true" : null }, one.text || "(empty)");
      button.addEventListener("click", () => this.showOther(asked, run, one));
      item.append(button, htmlElement("span", { class: "facts" }, ` score ${one.score.toFixed(3)}, log-probability ${one.logProbability.toFixed(2)}`));
      list.append(item);
    }
    return box;
  }

  // Shows another of the n best translations, and its attention.
  showOther(asked, run, one) {
    return this.enqueue("reading that translation …", async () => {
      const { nBest } = asked.original[run];
      const facts = await this.request(asked.questionOf(run, one, false));
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

  drawToken(asked, run, changed, place) {
    const facts = asked.facts(run, changed), box = htmlElement("div", { class: "token-facts" });
    box.append(htmlElement("p", {}, "Likeliest tokens here. Choose another one, and the translation goes on from it:"));
    const goOn = (id, token) => {
      const ids = [...facts.ids.slice(0, place), id];
      const text = [...facts.sentence.target.slice(0, place), token].map(spellToken).join("").trim();
      this.edit(run, (edits) => edits.setPrefix(ids, text));
    };
    box.append(drawAlternatives(facts.alternatives[place], facts.ids[place], goOn));
    if (this.backend.rows) box.append(this.drawRowOf(asked, run, changed, place));
    return box;
  }

  // The weights of the shown head at a token, to be moved.
  drawRowOf(asked, run, changed, place) {
    const { site, layer, head } = this.store.state, at = WEIGHED_AT[site], facts = asked.facts(run, changed);
    const details = htmlElement("details", {}), heads = this.backend.runs[run].heads[at];
    details.append(htmlElement("summary", {}, "Move weight within this row"));
    if (!heads || site === "encoder" || head === "mean" || layer >= heads[0] || head >= heads[1]) {
      details.append(htmlElement("p", {}, "Choose one head of the cross-attention or of the decoder below, and the token once more."));
      return details;
    }
    const column = changed ? this.changedColumn(run) : run;
    const weights = this.store.matrix(column, asked.id, site === "norms" ? "cross" : site, layer, head)[place];
    const { columns } = tokensOf(facts.sentence, this.store.sites[site].axes);
    details.append(
      htmlElement("p", {}, `${SITE_NAMES[at]}, layer ${layer}, head ${head}: how the next token depends on this row alone.`),
      drawRow({
        keys: columns, weights: [...weights], before: facts.alternatives[place],
        ask: async (moved) => {
          const row = { site: at, layer, head, query: place, weights: moved };
          return (await this.request(asked.questionOf(run, facts, changed, row))).alternatives[place];
        },
      }),
    );
    return details;
  }

  // Draws the switches below the pictures of a run.
  drawBelow(section, { run: column, site }) {
    const place = this.columns[column], at = WEIGHED_AT[site], { layer, head } = this.store.state;
    const heads = place && this.backend.runs[place.run].heads[at];
    if (!heads || !this.case || this.backend.changes.length === 0) return;
    const edits = this.case.edits[place.run];
    const bar = drawSwitchBar({
      site: at, layer, head, heads: heads[1], changes: this.backend.changes, edits,
      set: (places, change) => this.edit(place.run, (edits) => edits.setHeads(at, places, change)),
    });
    section.querySelector(".heads")?.after(bar);
  }

  async copyLink() {
    const address = linkTo(this.case);
    await navigator.clipboard?.writeText(address).catch(() => {});
    history.replaceState(null, "", address);
    this.tell("The address of this page now holds the sentence and the changes; it was copied.");
  }

  save() {
    const answers = this.case.original.concat(this.case.changed).filter(Boolean).map((facts) => facts.answer);
    return this.enqueue("saving …", async () => `Saved in ${(await this.backend.save(answers)).join(" and ")}`);
  }
}
