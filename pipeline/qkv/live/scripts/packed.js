"use strict";
// Reads the model that the page holds: see packed_model.py. The sum at its end is checked while it is unpacked.

async function unpack(text) {
  const packed = Uint8Array.fromBase64?.(text) ?? bytesOf(atob(text.trim()));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  const length = new DataView(bytes.buffer).getUint32(0, true), start = 4 + length;
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(4, start)));
  const floats = halfFloats(), count = (bytes.length - start) / 2, arrays = {};
  let place = start;
  for (const [name, shape] of header.arrays) {
    const data = new Float32Array(shape.reduce((product, size) => product * size, 1));
    for (let i = 0; i < data.length; i++, place++) data[i] = floats[(bytes[place] << 8) | bytes[place + count]];
    arrays[name] = { shape, data };
  }
  if (place !== start + count) throw new Error("the model's arrays do not fill its block");
  return { header, arrays };
}

function bytesOf(characters) {
  const bytes = new Uint8Array(characters.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = characters.charCodeAt(i);
  return bytes;
}

// The number of each 16-bit float.
function halfFloats() {
  return Float32Array.from({ length: 65536 }, (_, bits) => {
    const sign = bits >> 15 ? -1 : 1, exponent = (bits >> 10) & 31, fraction = bits & 1023;
    return exponent ? sign * 2 ** (exponent - 15) * (1 + fraction / 1024) : sign * 2 ** -14 * (fraction / 1024);
  });
}
