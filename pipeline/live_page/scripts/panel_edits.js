"use strict";
// What a person has changed in one translation: heads, and the tokens with which it begins. Each edit can be undone.

const CHANGE_NAMES = { zeroed: "off", uniform: "even", permuted: "shuffled", without_top: "without its top" };
const CHANGE_MEANINGS = {
  zeroed: "the head adds nothing",
  uniform: "the same weight for every word",
  permuted: "the same weights, on other words",
  without_top: "without each row's largest weight",
};
const SITE_NAMES = { cross: "cross-attention", encoder_self: "encoder", decoder_self: "decoder" };
const WEIGHED_AT = { cross: "cross", norms: "cross", encoder: "encoder_self", decoder: "decoder_self" };

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

  // Each edit in words, with what takes it back.
  describe() {
    const words = this.heads.map(({ site, layer, head, change }) => ({
      text: `${SITE_NAMES[site]}, layer ${layer}, head ${head}: ${CHANGE_NAMES[change]}`,
      remove: () => this.setHeads(site, [[layer, head]], null),
    }));
    if (this.prefix.length) words.push({ text: `begins with “${this.prefixText}”`, remove: () => this.setPrefix([], "") });
    return words;
  }
}
