"use strict";
// The address: its fragment holds the state, so that a link shares a view and Back returns to the one before.

const SETTLE_MILLISECONDS = 150;

class Address {
  // `normal` is the state of a page that was opened without a fragment; `allowed` lists the values of some keys.
  constructor(store, normal, allowed) {
    this.store = store;
    this.normal = normal;
    this.allowed = allowed;
    this.stepping = false; // whether the last entry of the history was made by a step
    this.timer = null;
    this.kept = true; // false in a frame without an address of its own, such as a notebook's
    this.store.subscribe((_, how) => how === "address" || this.write(how));
    addEventListener("popstate", () => this.follow());
  }

  // The changes that the fragment asks for; what makes no sense is left out. `#7` is sentence 7.
  read() {
    const text = location.hash.slice(1), changes = {};
    if (/^\d+$/.test(text)) return { id: Number(text) };
    for (const [key, given] of new URLSearchParams(text)) {
      const kind = typeof STATE[key], allowed = this.allowed[key];
      if (!Object.hasOwn(STATE, key) || (allowed && !allowed.includes(given))) continue;
      if (key === "pin" && !/^[rc]\d+$/.test(given)) continue;
      const number = /^\d{1,15}$/.test(given) ? Number(given) : null;
      if (key === "head") changes.head = number ?? "mean";
      else if (kind === "number" || key === "id") number !== null && (changes[key] = number);
      else changes[key] = kind === "boolean" ? given === "1" : given;
    }
    return changes;
  }

  // The fragment of the state: what is shown of which sentence, and all else that is not as usual.
  fragment() {
    const { state } = this.store, parameters = new URLSearchParams();
    for (const [key, value] of Object.entries(state)) {
      const always = ["id", "site", "layer", "head"].includes(key) || (key === "stage" && this.store.stages);
      if (value === null || (value === this.normal[key] && !always)) continue;
      parameters.set(key, typeof value === "boolean" ? String(Number(value)) : value);
    }
    return `#${parameters}`;
  }

  // One entry of the history for each choice; steps that follow each other share one, which is written when they rest.
  write(how) {
    clearTimeout(this.timer);
    if (how === "step" && this.stepping) {
      this.timer = setTimeout(() => this.put("replaceState"), SETTLE_MILLISECONDS);
      return;
    }
    this.stepping = how === "step";
    this.put(how === "open" ? "replaceState" : "pushState");
  }

  put(method) {
    const fragment = this.fragment();
    if (fragment === location.hash) return;
    try {
      history[method](null, "", fragment);
    } catch {
      this.kept = !location.protocol.startsWith("about"); // elsewhere the browser only had too many entries at once
    }
  }

  follow() {
    clearTimeout(this.timer);
    this.stepping = false;
    this.store.set({ ...this.normal, ...this.read() }, "address");
  }
}

// Copies the link to what is shown; false if the browser does not let it.
async function copyLink() {
  try {
    await navigator.clipboard.writeText(location.href);
    return true;
  } catch {
    return false;
  }
}
