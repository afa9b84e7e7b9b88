"use strict";
// One sentence that was asked: what each run says to it, what a person has changed since, and the address that holds it.

// The name of a head whose weights are changed; `sites` are the store's. A link may name what is not there.
function nameHead(sites, at, layer, head) {
  const site = Object.values(sites).find(({ weighedAt }) => weighedAt === at);
  return `${site?.title ?? at}, layer ${layer}, head ${head}`;
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
    return this.heads.find((one) => one.site === site && one.layer === layer && one.head === head)?.change ?? null;
  }

  // Sets how heads are changed, [[layer, head], ...]; `null` leaves them as they are.
  setHeads(site, places, change) {
    this.remember();
    const among = (one) => one.site === site && places.some(([layer, head]) => one.layer === layer && one.head === head);
    this.heads = this.heads.filter((one) => !among(one));
    if (change !== null) this.heads.push(...places.map(([layer, head]) => ({ site, layer, head, change })));
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

  // Each edit in words, with what takes it back; `changes` are the backend's, `sites` the store's.
  describe(changes, sites) {
    const words = this.heads.map(({ site, layer, head, change }) => ({
      text: `${nameHead(sites, site, layer, head)}: ${changes[change]?.label ?? change}`,
      remove: () => this.setHeads(site, [[layer, head]], null),
    }));
    if (this.prefix.length) words.push({ text: `begins with “${this.prefixText}”`, remove: () => this.setPrefix([], "") });
    return words;
  }
}

class Case {
  // `paragraph`: the text that it is a sentence of: {cases, spaces}, with the spaces between them; an empty line is null.
  constructor(id, text, beam, runs, paragraph) {
    this.id = id;
    this.text = text;
    this.beam = beam;
    this.paragraph = paragraph;
    this.original = Array(runs).fill(null); // facts of the backend, run by run
    this.changed = Array(runs).fill(null);
    this.edits = Array.from({ length: runs }, () => new Edits());
    this.token = null; // {run, changed, place}: whose alternatives are shown
    this.why = new Map(); // promises of what was asked about scores and logits, by the question
  }

  // The question to a run. Without edits it asks for the original.
  question(run, edits = null) {
    return {
      text: this.text, run, beam_size: this.beam, n_best: edits ? 1 : this.beam,
      prefix: edits?.prefix ?? [], target: null, changes: edits?.heads ?? [], row: null,
    };
  }

  // The question for one translation as it is: another of the n best, or this one with a row of weights moved.
  questionOf(run, facts, changed, row = null) {
    return { ...this.question(run, changed ? this.edits[run] : null), n_best: 1, prefix: [], target: facts.ids, row };
  }

  // The question why a token of the original translation was written.
  logitQuestion(run, query) {
    return { text: this.text, run, target: this.original[run].ids, query };
  }

  // The question why a head looks where it looks, in a row of the original translation.
  scoreQuestion(run, site, layer, head, query) {
    return { ...this.logitQuestion(run, query), site, layer, head };
  }

  facts(run, changed) {
    return (changed ? this.changed : this.original)[run];
  }
}

const LINK_START = "#live=";

function linkTo({ text, beam, edits }) {
  const said = { text, beam, edits: edits.map(({ heads, prefix, prefixText }) => ({ heads, prefix, prefixText })) };
  return `${location.href.split("#")[0]}${LINK_START}${encodeURIComponent(JSON.stringify(said))}`;
}

// Reads what a link asks for: {text, beam, edits}, or null. Whoever wrote the link, all of it is data.
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
