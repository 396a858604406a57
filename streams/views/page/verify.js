// Verifies a receipt and its proof in the browser, with nothing but WebCrypto.
//
// 1. Bytes are read as deterministic CBOR (RFC 8949 section 4.2.1) and refused otherwise: shortest
//    heads, sorted keys, no floats, no tags but the envelope's, depth at most 16.
// 2. A COSE_Sign1 must have exactly the headers {1: -8, 4: kid}; the kid is the SHA-256 thumbprint
//    (RFC 9679) of the key that the core names as `steward`, and that key's signature must hold.
// 3. The receipt's leaf hash and the proof's path must lead to the root of the signed head, whose
//    length is the tree's size (RFC 9162 section 2.1.3.2).
//
// 4. A witness's statement must hold, be of another key than the steward's, cover the receipt, and
//    be of a ledger that the head's begins with or that begins with the head's.
//
// Every check has a name and a sentence; the first that fails is the verdict.

const DEPTH_MAX = 16;
const PROOF_KIND = "pool-proof/1";
const RECEIPT_KIND = "pool/1";
const HEAD_KIND = "pool-head/1";
const WITNESS_KIND = "pool-witness/1";
const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

export class Failed extends Error {
  constructor(check, detail) {
    super(detail);
    this.check = check;
  }
}

function refuse(check, detail) {
  throw new Failed(check, detail);
}

export function decode(bytes) {
  const [value, end] = item(bytes, 0, 0);
  if (end !== bytes.length) refuse("decode", "bytes after the end");
  return value;
}

function head(bytes, at) {
  if (at >= bytes.length) refuse("decode", "the bytes end early");
  const major = bytes[at] >> 5;
  const low = bytes[at] & 31;
  if (low < 24) return [major, BigInt(low), at + 1, low];
  if (low > 27) refuse("canonical", "an indefinite or reserved length");
  const size = 1 << (low - 24);
  if (at + 1 + size > bytes.length) refuse("decode", "the bytes end early");
  let argument = 0n;
  for (let i = 1; i <= size; i++) argument = (argument << 8n) | BigInt(bytes[at + i]);
  const least = [24n, 256n, 65536n, 4294967296n][low - 24];
  if (major !== 7 && argument < least) refuse("canonical", "a number that is not in its shortest form");
  return [major, argument, at + 1 + size, low];
}

function item(bytes, at, depth) {
  if (depth > DEPTH_MAX) refuse("decode", "nested too deep");
  const [major, argument, after, low] = head(bytes, at);
  switch (major) {
    case 0: return [exact(argument), after];
    case 1: return [exact(-1n - argument), after];
    case 2: return string(bytes, after, argument);
    case 3: {
      const [raw, end] = string(bytes, after, argument);
      try {
        return [text.decode(raw), end];
      } catch {
        return refuse("decode", "text that is not UTF-8");
      }
    }
    case 4: return list(bytes, after, argument, depth);
    case 5: return map(bytes, after, argument, depth);
    case 7:
      if (low === 20) return [false, after];
      if (low === 21) return [true, after];
      if (low === 22) return [null, after];
  }
  return refuse("decode", "a tag, a float or an unknown simple value");
}

function exact(number) {
  const small = Number(number);
  return Number.isSafeInteger(small) ? small : number;
}

function string(bytes, at, length) {
  const end = at + Number(length);
  if (end > bytes.length) refuse("decode", "the bytes end early");
  return [bytes.subarray(at, end), end];
}

function list(bytes, at, count, depth) {
  const values = [];
  if (count > BigInt(bytes.length)) refuse("decode", "the bytes end early");
  for (let i = 0n; i < count; i++) {
    const [value, end] = item(bytes, at, depth + 1);
    values.push(value);
    at = end;
  }
  return [values, at];
}

function map(bytes, at, count, depth) {
  const members = new Map();
  let last = null;
  if (count > BigInt(bytes.length)) refuse("decode", "the bytes end early");
  for (let i = 0n; i < count; i++) {
    const [key, end] = item(bytes, at, depth + 1);
    if (typeof key !== "string") refuse("decode", "a key that is not text");
    const raw = bytes.subarray(at, end);
    if (last !== null && order(last, raw) >= 0) refuse("canonical", "keys out of order, or twice");
    last = raw;
    const [value, next] = item(bytes, end, depth + 1);
    members.set(key, value);
    at = next;
  }
  return [members, at];
}

function order(one, other) {
  const length = Math.min(one.length, other.length);
  for (let i = 0; i < length; i++) if (one[i] !== other[i]) return one[i] - other[i];
  return one.length - other.length;
}

export function equal(one, other) {
  return one.length === other.length && order(one, other) === 0;
}

export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

function joined(...parts) {
  const whole = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

async function sha256(...parts) {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", joined(...parts)));
}

function byteString(bytes) {
  const n = bytes.length;
  if (n < 24) return joined([0x40 + n], bytes);
  if (n < 256) return joined([0x58, n], bytes);
  if (n < 65536) return joined([0x59, n >> 8, n & 255], bytes);
  return joined([0x5a, n >>> 24, (n >> 16) & 255, (n >> 8) & 255, n & 255], bytes);
}

const ALPHABET = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

export function keyOf(did) {
  if (typeof did !== "string" || !/^did:key:z[1-9A-HJ-NP-Za-km-z]{40,60}$/.test(did)) {
    refuse("signature", "the signer is not named by an Ed25519 did:key");
  }
  let number = 0n;
  for (const letter of did.slice(9)) number = number * 58n + BigInt(ALPHABET.indexOf(letter));
  const digits = number.toString(16).padStart(68, "0");
  if (digits.length !== 68 || !digits.startsWith("ed01")) {
    refuse("signature", "the signer is not named by an Ed25519 did:key");
  }
  return Uint8Array.from(digits.slice(4).match(/../g), (pair) => parseInt(pair, 16));
}

const PROTECTED = [0xa2, 0x01, 0x27, 0x04, 0x58, 0x20];

function split(bytes) {
  if (bytes[0] !== 0xd2 || bytes[1] !== 0x84) refuse("decode", "not a COSE_Sign1");
  const parts = [];
  let at = 2;
  for (const which of [0, 1, 2, 3]) {
    const [major, argument, after] = head(bytes, at);
    if (which === 1) {
      if (major !== 5 || argument !== 0n) refuse("headers", "the unprotected header is not empty");
      parts.push(null);
      at = after;
      continue;
    }
    if (major !== 2) refuse("decode", "not a COSE_Sign1");
    const [raw, end] = string(bytes, after, argument);
    parts.push(raw);
    at = end;
  }
  if (at !== bytes.length) refuse("decode", "bytes after the end");
  const [header, , payload, signature] = parts;
  if (header.length !== 38 || !equal(header.subarray(0, 6), Uint8Array.from(PROTECTED))) {
    refuse("headers", "the protected header is not {1: -8, 4: kid}");
  }
  if (signature.length !== 64) refuse("signature", "a signature has 64 bytes");
  return { header, kid: header.subarray(6), payload, signature };
}

export async function open(bytes, kind, signer = "steward") {
  const sealed = split(bytes);
  const core = decode(sealed.payload);
  if (!(core instanceof Map) || core.get("jc_receipt") !== kind) refuse("decode", `not a ${kind}`);
  const did = core.get(signer);
  const raw = keyOf(did);
  const thumbprint = await sha256([0xa3, 1, 1, 0x20, 6, 0x21, 0x58, 0x20], raw);
  if (!equal(thumbprint, sealed.kid)) refuse("signature", "the header names another key");
  const signed = joined(
    [0x84, 0x6a], new TextEncoder().encode("Signature1"),
    byteString(sealed.header), [0x40], byteString(sealed.payload),
  );
  const key = await crypto.subtle.importKey("raw", raw, { name: "Ed25519" }, false, ["verify"]);
  if (!(await crypto.subtle.verify({ name: "Ed25519" }, key, sealed.signature, signed))) {
    refuse("signature", "the signature does not hold");
  }
  return { core, steward: did };
}

export async function rootOf(leaf, index, size, path) {
  let node = BigInt(index);
  let last = BigInt(size) - 1n;
  if (node > last) refuse("inclusion", "the receipt is not in a tree of that size");
  let hash = leaf;
  for (const sibling of path) {
    if (!(sibling instanceof Uint8Array) || sibling.length !== 32) refuse("inclusion", "not a hash");
    if (last === 0n) refuse("inclusion", "the path is too long");
    if (node & 1n || node === last) {
      hash = await sha256([1], sibling, hash);
      while (!(node & 1n) && node !== 0n) {
        node >>= 1n;
        last >>= 1n;
      }
    } else {
      hash = await sha256([1], hash, sibling);
    }
    node >>= 1n;
    last >>= 1n;
  }
  if (last !== 0n) refuse("inclusion", "the path is too short");
  return hash;
}

// That the tree of `second` begins with the tree of `first` (RFC 9162 section 2.1.4.2).
async function consistent(first, second, firstRoot, secondRoot, path) {
  if (!Array.isArray(path) || path.some((one) => !(one instanceof Uint8Array) || one.length !== 32)) {
    refuse("witness", "not a path of hashes");
  }
  if (first === second) {
    if (path.length || !equal(firstRoot, secondRoot)) refuse("witness", "it signed another history");
    return;
  }
  let node = BigInt(first) - 1n;
  let last = BigInt(second) - 1n;
  const steps = (BigInt(first) & node) === 0n ? [firstRoot, ...path] : [...path];
  if (!steps.length) refuse("witness", "the path is too short");
  while (node & 1n) {
    node >>= 1n;
    last >>= 1n;
  }
  let one = steps[0];
  let other = steps[0];
  for (const step of steps.slice(1)) {
    if (last === 0n) refuse("witness", "the path is too long");
    if (node & 1n || node === last) {
      one = await sha256([1], step, one);
      other = await sha256([1], step, other);
      while (!(node & 1n) && node !== 0n) {
        node >>= 1n;
        last >>= 1n;
      }
    } else {
      other = await sha256([1], other, step);
    }
    node >>= 1n;
    last >>= 1n;
  }
  if (last !== 0n || !equal(one, firstRoot) || !equal(other, secondRoot)) {
    refuse("witness", "it signed another history");
  }
}

// Each countersignature in the proof: whose it is, once it holds and covers the receipt.
async function witnesses(entries, seq, end, pool) {
  if (!Array.isArray(entries)) refuse("witness", "the proof has no list of witnesses");
  const found = [];
  for (const entry of entries) {
    const statement = entry instanceof Map ? entry.get("statement") : null;
    if (!(statement instanceof Uint8Array)) refuse("witness", "an entry without a statement");
    const signed = await open(statement, WITNESS_KIND, "witness");
    const length = signed.core.get("length");
    if (signed.core.get("pool") !== pool || signed.steward === end.steward || length <= seq) {
      refuse("witness", "a statement that does not cover this receipt");
    }
    const ends = [[length, signed.core.get("root")], [end.core.get("length"), end.core.get("root")]];
    ends.sort((one, other) => one[0] - other[0]);
    await consistent(ends[0][0], ends[1][0], ends[0][1], ends[1][1], entry.get("path"));
    found.push(signed.steward);
  }
  return found;
}

// What `passed` is told, in order: a check's name and a sentence. Throws Failed.
export async function verify({ receipt, proof, pool, seq, trusted }, passed) {
  const file = decode(proof);
  if (!(file instanceof Map) || file.get("jc_receipt") !== PROOF_KIND) refuse("decode", "not a proof file");
  const inside = file.get("receipt");
  if (!(inside instanceof Uint8Array) || !equal(inside, receipt)) {
    refuse("receipt", "the proof is of other bytes than the receipt's");
  }
  const opened = await open(receipt, RECEIPT_KIND);
  if (opened.core.get("pool") !== pool || opened.core.get("seq") !== seq) {
    refuse("receipt", "another pool's receipt, or another place");
  }
  passed("signature", `The receipt is deterministic CBOR, signed by ${opened.steward}.`);
  if (trusted && opened.steward !== trusted) refuse("trust", "signed by another key than the one you trust");
  if (trusted) passed("trust", "That is the key that you trust.");
  const headBytes = file.get("head");
  if (!(headBytes instanceof Uint8Array)) refuse("head", "the proof has no head");
  const end = await open(headBytes, HEAD_KIND);
  if (end.core.get("pool") !== pool || end.steward !== opened.steward) {
    refuse("head", "the head is another pool's, or another steward's");
  }
  const length = end.core.get("length");
  passed("head", `The head of ${length} receipts is signed by the same key.`);
  const path = file.get("path");
  if (!Array.isArray(path)) refuse("inclusion", "the proof has no path");
  const leaf = await sha256([0], receipt);
  const root = await rootOf(leaf, seq, length, path);
  if (!equal(root, end.core.get("root"))) refuse("inclusion", "the receipt is not in the head's tree");
  passed("inclusion", `${path.length} hashes lead from the receipt to the head's root ${hex(root).slice(0, 16)}…`);
  if (BigInt(seq) === BigInt(length) - 1n && !equal(await sha256(receipt), end.core.get("head"))) {
    refuse("head", "the head names another last receipt");
  }
  const seen = await witnesses(file.get("witnesses"), seq, end, pool);
  for (const did of seen) passed("witness", `Countersigned, over the same history, by ${did}.`);
  if (!seen.length) passed("witness", "No witness has signed for it yet: the steward's word alone.");
  return { core: opened.core, length };
}
