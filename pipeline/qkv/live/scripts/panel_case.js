"use strict";
// One sentence that was asked: what each run says to it, and what was changed since.

class Case {
  constructor(id, text, beam, runs) {
    this.id = id;
    this.text = text;
    this.beam = beam;
    this.original = Array(runs).fill(null); // facts of the backend, run by run
    this.changed = Array(runs).fill(null);
    this.edits = Array.from({ length: runs }, () => new Edits());
    this.token = null; // {run, changed, place}: whose alternatives are shown
    this.why = new Map(); // promises of what was asked about scores, by the question
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

  // The question why a head looks where it looks, in a row of the original translation.
  scoreQuestion(run, site, layer, head, query) {
    return { text: this.text, run, target: this.original[run].ids, site, layer, head, query };
  }

  facts(run, changed) {
    return (changed ? this.changed : this.original)[run];
  }
}
