"use strict";
// The panel in which one types a sentence, and switches heads off by the buttons on their pictures. It is made for any
// backend (see page_backend.js for what one does); translations are added to the viewer's list.
//
//   new LivePanel(viewer, backend, {examples, sites, longest})   `examples`: sentences to try; `sites`: those whose
//       heads can be switched off; `longest`: characters of a sentence

const CHANGED = "heads off"; // the name of the second run, which the changed model's translations are in

class LivePanel {
  constructor(viewer, backend, { examples, sites = ["cross"], longest = 5000 }) {
    Object.assign(this, { viewer, backend, sites, longest, off: [], history: [], request: null, next: 0 });
    this.element = document.getElementById("extension");
    this.element.closest("main").prepend(this.element);
    this.build(examples);
    viewer.decorateHeads((button, place) => queueMicrotask(() => this.addSwitch(button, place)));
    viewer.store.subscribe((changes) => { if ("id" in changes) this.showSelected(); });
  }

  build(examples) {
    const form = htmlElement("form", { class: "live" }), label = htmlElement("label", {}, "Sentence ");
    this.input = htmlElement("textarea", { rows: 1, maxlength: this.longest, dir: "auto", spellcheck: "false" });
    this.send = htmlElement("button", { class: "send" }, "Translate");
    this.bar = htmlElement("progress", { hidden: true, "aria-label": "Progress of the translation" });
    this.status = htmlElement("p", { role: "status", class: "status" });
    label.append(this.input);
    form.append(label, this.send, this.bar);
    form.addEventListener("submit", (event) => { event.preventDefault(); this.translate(this.input.value); });
    this.input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      form.requestSubmit();
    });
    const list = htmlElement("p", { class: "examples" }, "Try: ");
    for (const text of examples) {
      const button = htmlElement("button", { type: "button", dir: "auto" }, text);
      button.addEventListener("click", () => { this.input.value = text; this.translate(text); });
      list.append(button, " ");
    }
    this.changes = htmlElement("section", { class: "changes", "aria-label": "Heads that are off", "aria-live": "polite" });
    this.element.replaceChildren(form, ...(examples.length ? [list] : []), this.status, this.changes);
    this.drawChanges();
  }

  // Adds the translation of a text to the list, and shows it.
  async translate(text) {
    const line = text.replace(/\s+/g, " ").trim().slice(0, this.longest);
    if (!line) return this.say("Type a sentence, then press Enter.");
    const found = await this.ask(line, []);
    if (!found) return null;
    const { store } = this.viewer, id = this.next++;
    store.addSentence(0, { ...found.sentence, id, typed: line }, found.weights);
    store.select(id);
    return id;
  }

  // Asks the backend; a request that is still under way is given up. Returns null where it failed.
  async ask(text, off) {
    this.request?.abort();
    const request = new AbortController(), { signal } = request;
    this.request = request;
    this.progress(0, 0);
    try {
      const progress = (done, most) => { if (!signal.aborted) this.progress(done, most); };
      const found = await this.backend.translate({ text, off }, { progress, signal });
      if (signal.aborted) return null;
      this.say("");
      return found;
    } catch (error) {
      if (!signal.aborted) this.say(`This could not be translated: ${error.message}.`);
      return null;
    } finally {
      if (this.request === request) this.progress(null);
    }
  }

  progress(done, most) {
    this.bar.hidden = done === null;
    if (done === null) return;
    if (done && most) Object.assign(this.bar, { max: most, value: done });
    else this.bar.removeAttribute("value");
    this.say(done ? `Translating: ${done} tokens …` : "Translating …");
  }

  say(text) {
    this.status.textContent = text;
    return null;
  }

  isOff(layer, head, site) {
    return this.off.some((one) => one[0] === layer && one[1] === head && one[2] === site);
  }

  // Puts a small button beside a head's picture; the mean's switches the whole layer.
  addSwitch(button, { site, layer, head }) {
    if (!this.sites.includes(site) || !button.isConnected) return;
    const heads = head === "mean" ? [...Array(this.viewer.store.size()[1]).keys()] : [head];
    const isOff = heads.every((one) => this.isOff(layer, one, site));
    const cell = htmlElement("span", { class: isOff ? "switchable off" : "switchable" });
    const focused = document.activeElement === button;
    button.replaceWith(cell);
    cell.append(button);
    if (focused) button.focus({ preventScroll: true });
    const name = head === "mean" ? `all heads of layer ${layer}` : `layer ${layer}, head ${head}`;
    const toggle = htmlElement("button", {
      type: "button", class: "switch", tabindex: -1, "aria-pressed": String(isOff), "aria-label": `off: ${name}`,
      title: isOff ? `switch ${name} on again` : `switch ${name} off: it contributes nothing`,
    }, isOff ? "off" : "on");
    toggle.addEventListener("click", () => this.change(
      isOff ? this.off.filter((one) => one[0] !== layer || one[2] !== site || !heads.includes(one[1]))
        : [...this.off, ...heads.filter((one) => !this.isOff(layer, one, site)).map((one) => [layer, one, site])],
      button.matches(":focus") ? null : `[aria-label="off: ${name}"]`,
    ));
    button.setAttribute("aria-keyshortcuts", "x");
    button.addEventListener("keydown", (event) => { if (event.key === "x") toggle.click(); });
    cell.append(toggle);
  }

  // Switches to other heads; `focus` selects what is focused afterwards, since pictures are drawn anew.
  async change(off, focus = null) {
    this.history.push(this.off);
    await this.set(off);
    if (focus) this.viewer.draw(), queueMicrotask(() => document.querySelector(focus)?.focus());
  }

  undo() {
    return this.history.length ? this.set(this.history.pop()) : null;
  }

  set(off) {
    this.off = off;
    this.dropChanged();
    this.drawChanges();
    return this.showChanged();
  }

  dropChanged() {
    const { store } = this.viewer;
    if (store.runs.length < 2) return;
    store.runs.length = 1;
    store.notify({ sentences: true });
  }

  showSelected() {
    const { store } = this.viewer, { typed } = store.sentence(0, store.state.id) ?? {};
    if (typed !== undefined && document.activeElement !== this.input) this.input.value = typed;
    return this.showChanged();
  }

  // Sees to it that the shown sentence has its translation by the changed model, and compares the two.
  async showChanged() {
    const { store } = this.viewer, { id } = store.state, original = store.sentence(0, id), { off } = this;
    if (!off.length || !original) return this.drawChanges();
    if (!store.sentence(1, id)) {
      const found = await this.ask(original.typed, off);
      if (!found || off !== this.off) return null;
      const { name, sites, units } = store.runs[0];
      if (store.runs.length < 2) store.addRun({ name: `${name}, ${CHANGED}`, sites, units, sentences: [] });
      store.addSentence(1, { ...found.sentence, id, typed: original.typed }, found.weights);
    }
    return this.drawChanges();
  }

  drawChanges() {
    const { store } = this.viewer, { off, changes } = this, hint = "The button under a head's picture switches it off, so that it contributes nothing; so does the key x on the picture.";
    if (!off.length && !this.history.length) return changes.replaceChildren(htmlElement("p", { class: "units" }, hint));
    const buttons = htmlElement("p");
    const add = (text, action) => {
      const button = htmlElement("button", { type: "button" }, text);
      button.addEventListener("click", action);
      buttons.append(button, " ");
    };
    if (this.history.length) add("Undo", () => this.undo());
    if (off.length) add("All heads on", () => this.change([]));
    const names = off.map(([layer, head, site]) => `${site === "cross" ? "" : `${site} `}${layer}.${head}`);
    buttons.append(off.length ? `Off (layer.head): ${names.join(", ")}` : "All heads are on.");
    const before = store.sentence(0, store.state.id), after = store.sentence(1, store.state.id);
    return changes.replaceChildren(buttons, ...(off.length && before && after ? compare(before, after) : []));
  }
}
