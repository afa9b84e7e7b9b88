"use strict";
// What a person has changed in one translation: heads, and the tokens with which it begins. Each edit can be undone.

// How a head is called at which weights are changed; `sites` are those of the store. A link may name what is not there.
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

  // Each edit in words, with what takes it back; `changes` are those of the backend, `sites` those of the store.
  describe(changes, sites) {
    const words = this.heads.map(({ site, layer, head, change }) => ({
      text: `${nameHead(sites, site, layer, head)}: ${changes[change]?.label ?? change}`,
      remove: () => this.setHeads(site, [[layer, head]], null),
    }));
    if (this.prefix.length) words.push({ text: `begins with “${this.prefixText}”`, remove: () => this.setPrefix([], "") });
    return words;
  }
}
