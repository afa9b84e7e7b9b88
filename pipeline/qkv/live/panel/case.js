"use strict";
// A sentence of the panel: the answers of each run, the edits of the user, and the link that holds both.

const ATTENTION = ["cross", "encoder_self", "decoder_self"];

// Returns the name of a head. A link may name a site that does not exist.
function nameHead(at, layer, head) {
  return say("live.head", { site: ATTENTION.includes(at) ? say(`live.site.${at}`) : at, layer, head });
}

// Returns the name of a kind of change. A link may name one that does not exist.
function nameChange(change, changes) {
  return changes.includes(change) ? say(`live.change.${change}.label`) : change;
}

class Edits {
  constructor(heads = [], prefix = [], prefixText = "") {
    this.heads = heads; // [{site, layer, head, change}]
    this.prefix = prefix;
    this.prefixText = prefixText;
    this.past = [];
  }

  get empty() {
    return this.heads.length === 0 && this.prefix.length === 0;
  }

  changeOf(site, layer, head) {
    return this.heads.find((edit) => edit.site === site && edit.layer === layer && edit.head === head)?.change ?? null;
  }

  // Sets the kind of change of the heads `places`, [[layer, head], ...]; null removes their changes.
  setHeads(site, places, change) {
    this.remember();
    const isChanged = (edit) => edit.site === site && places.some(([layer, head]) => edit.layer === layer && edit.head === head);
    this.heads = this.heads.filter((edit) => !isChanged(edit));
    if (change !== null) this.heads.push(...places.map(([layer, head]) => ({ site, layer, head, change })));
  }

  // Sets the changes of all heads, [{site, layer, head, change}].
  replaceHeads(changes) {
    this.remember();
    this.heads = [...changes];
  }

  setPrefix(ids, text) {
    this.remember();
    this.prefix = ids;
    this.prefixText = text;
  }

  clear() {
    this.remember();
    this.heads = [];
    this.prefix = [];
    this.prefixText = "";
  }

  remember() {
    const { heads, prefix, prefixText } = this;
    this.past.push({ heads, prefix, prefixText });
    this.heads = [...heads];
  }

  undo() {
    Object.assign(this, this.past.pop());
  }

  // Returns [{text, remove}]: a description of each edit, and a function that undoes it. `changes`: see
  // panel/backend.js.
  describe(changes) {
    const descriptions = this.heads.map(({ site, layer, head, change }) => ({
      text: say("live.edit.head", { head: nameHead(site, layer, head), change: nameChange(change, changes) }),
      remove: () => this.setHeads(site, [[layer, head]], null),
    }));
    if (this.prefix.length) descriptions.push({ text: say("live.edit.prefix", { text: this.prefixText }), remove: () => this.setPrefix([], "") });
    return descriptions;
  }
}

class Case {
  // `runs`: the number of runs. `paragraph`: the text that contains the sentence, {cases, spaces}: the cases of all
  // sentences, null for an empty line, and the spaces between them.
  constructor(id, text, beam, runs, paragraph) {
    this.id = id;
    this.text = text;
    this.beam = beam;
    this.paragraph = paragraph;
    this.original = Array(runs).fill(null); // the facts of the translation by each run, see panel/backend.js
    this.changed = Array(runs).fill(null); // the same with edits, null without edits
    this.edits = Array.from({ length: runs }, () => new Edits());
    this.chosen = null; // {column, place}: the column of the viewer with the chosen row, and its token; null for the first
    this.why = new Map(); // kind of question and question about a row, as JSON -> the promise of its answer
  }

  // Returns the question for the translation by a run, with edits or without.
  question(run, edits = null) {
    return {
      text: this.text, run, beam_size: this.beam, n_best: edits ? 1 : this.beam,
      prefix: edits?.prefix ?? [], target: null, changes: edits?.heads ?? [], row: null,
    };
  }

  // Returns the question for the attention of a translation without a search: of the n-best list, or with a changed
  // row.
  questionOf(run, facts, changed, row = null) {
    return { ...this.question(run, changed ? this.edits[run] : null), n_best: 1, prefix: [], target: facts.ids, row };
  }

  // Returns the question for the parts of the logit of a token of the original translation.
  logitQuestion(run, query) {
    return { text: this.text, run, target: this.original[run].ids, query };
  }

  // Returns the question for a row of a head over the original translation.
  rowQuestion(run, site, layer, head, query) {
    return { ...this.logitQuestion(run, query), site, layer, head };
  }

  // Promises the answer of `backend[kind]` to a question about a row. It is asked once.
  explained(backend, kind, question) {
    const name = JSON.stringify([kind, question]);
    if (!this.why.has(name)) {
      this.why.set(name, backend[kind](question));
      this.why.get(name).catch(() => this.why.delete(name));
    }
    return this.why.get(name);
  }

  facts(run, changed) {
    return (changed ? this.changed : this.original)[run];
  }
}

const LINK_START = "#live=";

function linkTo({ text, beam, edits }) {
  const content = { text, beam, edits: edits.map(({ heads, prefix, prefixText }) => ({ heads, prefix, prefixText })) };
  return `${location.href.split("#")[0]}${LINK_START}${encodeURIComponent(JSON.stringify(content))}`;
}

// Returns the content of a link, {text, beam, edits}; null if the fragment is not such a link. Links are untrusted
// input.
function readLink(fragment, backend) {
  if (!fragment.startsWith(LINK_START)) return null;
  try {
    const { text, beam, edits } = JSON.parse(decodeURIComponent(fragment.slice(LINK_START.length)));
    const read = edits.slice(0, backend.runs.length).map(({ heads, prefix, prefixText }) => new Edits([...heads], [...prefix], String(prefixText)));
    return { text: String(text), beam: backend.beams.includes(beam) ? beam : backend.beams[0], edits: read };
  } catch {
    return null;
  }
}
