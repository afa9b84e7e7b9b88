"use strict";
// The guided tour: six questions that attention answers.

// Each step has a question, a text that explains where to look, a sentence, and `show(panel)`, which sets the state of
// the page. The sentence is translated if the run knows its words, as the demo does; otherwise the first example is.
const TOUR = [
  {
    question: "What is compared with what?",
    text: "Each row is one step of the translation. The model has read the words so far and asks, with a vector called the query, which words of the source matter now. Every source word answers with its key; the closer query and key, the darker the cell. A row sums to one. Point at a cell to see its number.",
    sentence: "the girl does not like the juice .",
    show: (panel) => panel.store.set({ site: "cross", layer: panel.lastLayer(), head: "mean", words: true, lines: false, side: "output" }),
  },
  {
    question: "Why “pomme” for “apple”?",
    text: "A word's own token is chosen below: these are the likeliest tokens at its place, and the row of the picture says where the model looked when it chose. Open “Move weight within this row” with one head chosen, take the weight off the darkest word, and see whether the choice survives.",
    sentence: "Jane gives an apple to the boy .",
    show: (panel) => {
      panel.store.set({ site: "cross", layer: panel.lastLayer(), head: 0 });
      const asked = panel.case, { sentence } = asked.original[0];
      const pomme = sentence.target.findIndex((token) => token === "▁pomme");
      panel.chooseToken(asked, 0, false, pomme < 0 ? Math.min(1, sentence.target.length - 1) : pomme);
    },
  },
  {
    question: "How is the order turned around?",
    text: "“European economic area” becomes “zone économique européenne”. Nothing in the model turns words around; each target word looks for its own source word, so the dark cells run against the diagonal there. This is the best-known picture of attention (Bahdanau et al. 2015, figure 3).",
    sentence: "the decisions on the european economic area were discussed by my governments in march 1992 .",
    show: (panel) => panel.store.set({ site: "cross", layer: panel.lastLayer(), head: "mean", lines: false, words: true }),
  },
  {
    question: "What is a head?",
    text: "Each layer compares queries and keys several times at once, each time with matrices of its own: a head. The small pictures show them all. Some look at the word that is translated, some at its neighbours, some nowhere in particular. Here head 0 of the last layer is switched off: see what is lost, then try the others with the buttons under their pictures.",
    sentence: "the mother often goes to the forest .",
    show: (panel) => {
      panel.store.set({ site: "cross", layer: panel.lastLayer(), head: 0 });
      return panel.edit(0, (edits) => edits.setHeads("cross", [[panel.lastLayer(), 0]], "zeroed"));
    },
  },
  {
    question: "What is a value?",
    text: "The weights say where a head looks, not what it brings from there. That is the value: what a word passes on to whoever looks at it. With “even” every word passes on the same share, so the values still arrive, but mixed; with “off” nothing arrives. Compare the two on the same heads: the difference is what the values carry without any choice among them.",
    sentence: "the girl does not like the juice .",
    show: (panel) => {
      const layer = panel.lastLayer(), change = "uniform" in panel.backend.changes ? "uniform" : "zeroed";
      panel.store.set({ site: "cross", layer });
      return panel.edit(0, (edits) => edits.setHeads("cross", panel.layerHeads(layer), change));
    },
  },
  {
    question: "Does attention explain?",
    text: "Only as far as changing it changes something. Here the weights of one head were given to other words. Where the translation and its probability stay, the picture of that head explained nothing about this sentence; where they fall, it did. Try it on each head before you believe a picture (Jain and Wallace 2019; Wiegreffe and Pinter 2019).",
    sentence: "Jane visits the old churches that the black dogs look for .",
    show: (panel) => {
      const change = "permuted" in panel.backend.changes ? "permuted" : "zeroed";
      panel.store.set({ site: "cross", layer: 0, head: 0 });
      return panel.edit(0, (edits) => edits.setHeads("cross", [[0, 0]], change));
    },
  },
];

class Tour {
  // `root`: the element of the steps. `button`: the button that starts and ends the tour.
  constructor(panel, root, button) {
    this.panel = panel;
    this.root = root;
    this.step = 0;
    button.hidden = !("cross" in panel.backend.runs[0].heads);
    button.addEventListener("click", () => (root.hidden ? this.go(0) : this.end()));
  }

  end() {
    this.root.hidden = true;
  }

  async go(step) {
    const { panel } = this, { question, text, sentence, show } = TOUR[step];
    this.step = step;
    this.root.hidden = false;
    this.draw(question, text);
    await panel.ask(panel.knows(sentence) ? sentence : panel.backend.examples[0] ?? sentence, { beam: panel.backend.beams[0] });
    if (this.step === step && panel.case) await show(panel);
  }

  draw(question, text) {
    const buttons = htmlElement("p", {});
    const button = (label, disabled, action) => buttons.append(makeButton(label, { disabled }, action));
    button("Back", this.step === 0, () => this.go(this.step - 1));
    button("Next", this.step === TOUR.length - 1, () => this.go(this.step + 1));
    button("End the tour", false, () => this.end());
    this.root.replaceChildren(htmlElement("h2", { tabindex: -1 }, `${this.step + 1} of ${TOUR.length}: ${question}`), htmlElement("p", {}, text), buttons);
    this.root.querySelector("h2").focus();
  }
}
