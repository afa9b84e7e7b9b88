"use strict";
// The names of heads: what tells each apart from the others, from the tables of the run's evaluation.

// Returns the profile of a head, see `profile_heads` in page.py; null if nothing is known of it.
function profileOf(run, site, layer, head) {
  return run.profiles?.[`${site}/${layer}/${head}`] ?? null;
}

// Returns a short name of a head, for the label below its picture; null if it has no type.
function shortProfile(profile) {
  return profile?.type ? `${say(`live.type.${profile.type}.short`)} ${formatShare(profile.share)}` : null;
}

// Returns the description of a head in a line. `lost`: the sentences whose translation changes without the head,
// {changed, tried}, if they have been counted in the page.
function describeProfile(profile, lost = null) {
  const parts = [];
  if (profile?.type) {
    const { type, rank, of, share } = profile, name = say(`live.type.${type}`);
    parts.push(of > 1 ? say("live.profile.rank", { name, rank, of }) : name, say(`live.share.${type}`, { share: formatShare(share) }));
  }
  if (profile?.right !== undefined) parts.push(say("live.profile.right", { share: formatShare(profile.right) }));
  if (profile?.largest !== undefined) parts.push(say("live.profile.largest", { weight: formatNumber(profile.largest) }));
  if (profile?.lost !== undefined) parts.push(say("live.profile.lost", { share: formatShare(profile.lost) }));
  if (lost) parts.push(say("live.profile.tried", { count: lost.changed, tried: lost.tried }));
  return parts.join(" · ");
}
