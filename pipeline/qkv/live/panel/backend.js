"use strict";
// The interface of backends, which answer the questions of the panel, and the backend that asks the server.
//
// A backend has these properties. `divide`, `row`, `explain`, `split` and `save` are optional:
//
//   runs       [{name, sites, units, heads, stepped, explained, profiles, splitWords}]: `sites` maps each shown site to
//              [layers, heads]; `heads` maps the attention whose heads can be changed (encoder_self, decoder_self, cross)
//              to [layers, heads]; `stepped` and `explained` list the attention whose rows `row` and `explain` know; for
//              `profiles` see profiles.js, for `splitWords` unknown.js
//   beams      the beam sizes to choose from; 1 is greedy search
//   changes    the kinds of change to choose from, such as zeroed
//   rows       whether weights can be moved within a row
//   examples   example sentences
//   divide(text)             promises {sentences, spaces}, with the spaces between them, or null if no splitter is
//                            installed
//   answer(question, tell)   promises the facts of a translation, see question.py and live_run.py; `tell(text)` shows a
//                            message while it waits
//   row(question)            promises the query, keys, values and weights of a row, see live_run.py
//   explain(question)        promises the parts of the scores of a row, see live_run.py
//   split(question)          promises the parts of the logit of a token, see live_run.py
//   save(answers)            promises the names of the folders in which answers were saved

const MOST_TRIES = 20;
const LONG_WAIT = 1500; // milliseconds until a message explains the wait

class ServerBackend {
  constructor(facts) {
    Object.assign(this, facts);
    this.token = new URLSearchParams(location.search).get("token") ?? "";
  }

  divide(text) {
    return this.post("divide", { text }, () => {});
  }

  async answer(question, tell) {
    const slow = setTimeout(() => tell(say("live.preparing")), LONG_WAIT);
    try {
      const facts = await this.post("answer", question, tell);
      return { ...facts, weights: await readWeights(facts.weights) };
    } finally {
      clearTimeout(slow);
    }
  }

  row(question) {
    return this.post("row", question, () => {});
  }

  explain(question) {
    return this.post("explain", question, () => {});
  }

  split(question) {
    return this.post("split", question, () => {});
  }

  async save(answers) {
    return (await this.post("save", { answers }, () => {})).folders;
  }

  async post(address, body, tell) {
    const headers = { "Content-Type": "application/json", "X-QKV-Token": this.token };
    for (let tries = 1; ; tries++) {
      const response = await fetch(address, { method: "POST", headers, body: JSON.stringify(body) }).catch(() => {
        throw new Error(say("live.ended"));
      });
      const facts = await response.json();
      if (response.ok) return facts;
      if (response.status !== 503 || tries === MOST_TRIES) throw new Error(facts.error);
      tell(say("live.busy"));
      await new Promise((done) => setTimeout(done, 100 * tries));
    }
  }
}
