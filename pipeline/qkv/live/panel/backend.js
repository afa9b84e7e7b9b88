"use strict";
// The backend answers the page's questions. It is an object with
//
//   runs       [{name, sites, units, heads, explained}]: `sites` maps what is shown to [layers, heads], `heads` the
//              attention whose heads can be changed (encoder_self, decoder_self, cross) to [layers, heads], `explained`
//              lists the attention whose scores can be explained
//   beams      the beam sizes on offer; 1 is greedy search
//   changes    the kinds of change on offer, such as {zeroed: {label: "off", meaning: "the head adds nothing"}}
//   rows       whether weights can be moved within a row
//   examples   sentences to begin with
//   divide(text)   a promise of {sentences, spaces}, with the spaces between them, or of null where nothing can divide a
//              text; missing where that cannot be asked
//   answer(question, tell)   a promise of the facts, see question.py and live_run.py; `tell(text)` says what it waits for
//   explain(question)        a promise of the parts of a row's scores, see live_run.py; missing where that cannot be asked
//   split(question)          a promise of the parts of a token's logit, see live_run.py; missing where that cannot be asked
//   save(answers)            a promise of the names of folders; missing where nothing can be saved

const MOST_TRIES = 20;
const LONG_WAIT = 1500; // milliseconds

class ServerBackend {
  constructor(facts) {
    Object.assign(this, facts);
    this.token = new URLSearchParams(location.search).get("token") ?? "";
  }

  divide(text) {
    return this.post("divide", { text }, () => {});
  }

  async answer(question, tell) {
    const slow = setTimeout(() => tell("preparing this kind of search; only the first time takes seconds …"), LONG_WAIT);
    try {
      const facts = await this.post("answer", question, tell);
      return { ...facts, weights: await readWeights(facts.weights) };
    } finally {
      clearTimeout(slow);
    }
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
        throw new Error("the program that answers has ended; start it again and open the address that it prints");
      });
      const facts = await response.json();
      if (response.ok) return facts;
      if (response.status !== 503 || tries === MOST_TRIES) throw new Error(facts.error);
      tell("busy: others are asking, too; waiting …");
      await new Promise((done) => setTimeout(done, 100 * tries));
    }
  }
}
