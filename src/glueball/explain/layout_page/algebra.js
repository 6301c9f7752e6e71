"use strict";

// Linear maps over F2, and what accesses cost. A vector is an integer, XOR its addition; a basis is the row-major flat
// index of its coordinates in a shape of powers of two. Checked against the Python library on random layouts.
const algebra = (() => {
  const HARDWARE = ["register", "lane", "warp", "block"];
  const SECTOR_BYTES = 32;
  const WORD_BYTES = 4;
  const VECTOR_BYTES = 16;
  const MERGING_LANES = 32;
  const MAXIMUM_BITS = 24;

  class LayoutError extends Error {}

  const log2 = (value) => 31 - Math.clz32(value);
  const isPowerOfTwo = (value) => Number.isInteger(value) && value > 0 && value <= 2 ** 30 && (value & (value - 1)) === 0;
  const bitsOf = (shape) => shape.map(log2);
  const product = (values) => values.reduce((total, value) => total * value, 1);

  function shiftsOf(shape) {
    const bits = bitsOf(shape);
    return bits.map((_, axis) => bits.slice(axis + 1).reduce((total, count) => total + count, 0));
  }

  function flatten(coordinates, shape) {
    const shifts = shiftsOf(shape);
    return coordinates.reduce((index, value, axis) => index | (value << shifts[axis]), 0);
  }

  function unflatten(index, shape) {
    const shifts = shiftsOf(shape);
    return shape.map((extent, axis) => (index >> shifts[axis]) & (extent - 1));
  }

  function apply(columns, index) {
    let result = 0;
    for (let bit = 0; index >> bit; bit++) if ((index >> bit) & 1) result ^= columns[bit];
    return result;
  }

  // The images of all indices.
  function table(columns) {
    const images = new Int32Array(1 << columns.length);
    columns.forEach((column, bit) => {
      for (let index = 0; index < 1 << bit; index++) images[(1 << bit) + index] = images[index] ^ column;
    });
    return images;
  }

  // A span that grows vector by vector and tells which combination of them, as a mask, gives a member.
  class Echelon {
    constructor(vectors = []) {
      this.pivots = new Map();
      this.kernel = [];
      this.count = 0;
      for (const vector of vectors) this.add(vector);
    }

    get rank() { return this.pivots.size; }

    reduce(vector) {
      let remainder = 0, combination = 0;
      while (vector) {
        const top = log2(vector);
        const pivot = this.pivots.get(top);
        if (pivot === undefined) {
          remainder ^= 1 << top;
          vector ^= 1 << top;
        } else {
          vector ^= pivot[0];
          combination ^= pivot[1];
        }
      }
      return [remainder, combination];
    }

    add(vector) {
      const [remainder, reduced] = this.reduce(vector);
      const combination = reduced ^ (1 << this.count++);
      if (remainder === 0) {
        this.kernel.push(combination);
        return false;
      }
      this.pivots.set(log2(remainder), [remainder, combination]);
      return true;
    }

    // The combination that gives the vector; null outside the span.
    solve(vector) {
      const [remainder, combination] = this.reduce(vector);
      return remainder ? null : combination;
    }

    has(vector) { return this.reduce(vector)[0] === 0; }
  }

  // -- maps: {shape, names, bases: {name: [flat basis, ...]}}

  function checkShape(shape) {
    if (!shape.length || !shape.every(isPowerOfTwo)) throw new LayoutError("extents must be powers of two");
    if (product(shape) > 2 ** MAXIMUM_BITS) throw new LayoutError("the tensor is too large to be drawn");
  }

  function makeMap(bases, shape) {
    checkShape(shape);
    const names = Object.keys(bases);
    const count = names.reduce((total, name) => total + bases[name].length, 0);
    if (count > MAXIMUM_BITS) throw new LayoutError("there are too many hardware indices to be drawn");
    const map = { shape, names, bases };
    if (new Echelon(columnsOf(map)).rank < log2(product(shape))) {
      throw new LayoutError("the layout leaves out elements: its bases do not span the tensor");
    }
    return map;
  }

  function mapFromCoordinates(vectors, shape) {
    checkShape(shape);
    const bases = {};
    for (const [name, list] of Object.entries(vectors)) {
      bases[name] = list.map((vector) => {
        if (vector.length !== shape.length) {
          throw new LayoutError(`${name} basis [${vector}] must have ${shape.length} coordinates`);
        }
        if (!vector.every((value, axis) => Number.isInteger(value) && value >= 0 && value < shape[axis])) {
          throw new LayoutError(`${name} basis [${vector}] lies outside the shape [${shape}]`);
        }
        return flatten(vector, shape);
      });
    }
    return makeMap(bases, shape);
  }

  const columnsOf = (map) => map.names.flatMap((name) => map.bases[name]);

  function split(map, mask) {
    const place = {};
    for (const name of map.names) {
      const bits = map.bases[name].length;
      place[name] = mask & ((1 << bits) - 1);
      mask >>>= bits;
    }
    return place;
  }

  // Per input dimension the mask of the bits that only replicate, given the bits before them.
  function freeVariables(map) {
    const span = new Echelon();
    const masks = {};
    for (const name of map.names) {
      masks[name] = 0;
      map.bases[name].forEach((basis, bit) => { if (!span.add(basis)) masks[name] |= 1 << bit; });
    }
    return masks;
  }

  // For each element the first hardware index that holds it, and the differences to the other ones.
  function holders(map) {
    const span = new Echelon(columnsOf(map));
    const solutions = [];
    for (let bit = 0; bit < log2(product(map.shape)); bit++) solutions.push(span.solve(1 << bit));
    return { first: table(solutions), copies: table(span.kernel) };
  }

  // -- layouts by their fields

  function checkSizes(name, sizes, rank) {
    if (sizes.length !== rank) throw new LayoutError(`${name} [${sizes}] must have ${rank} entries`);
    if (!sizes.every(isPowerOfTwo)) throw new LayoutError(`the entries of ${name} [${sizes}] must be powers of two`);
  }

  function checkOrder(order, rank) {
    const sorted = [...order].sort((first, second) => first - second);
    if (order.length !== rank || sorted.some((axis, index) => axis !== index)) {
      throw new LayoutError(`order [${order}] must be a permutation of 0..${rank - 1}`);
    }
  }

  function ctaTile(shape, ctas) {
    return shape.map((extent, axis) => {
      const most = Math.max(0, ...ctas.map((basis) => basis[axis]));
      return Math.max(1, Math.floor(extent / (2 * most || 1)));
    });
  }

  const unit = (axis, value, rank) => Array.from({ length: rank }, (_, index) => (index === axis ? value : 0));
  const clip = (vectors, shape) => vectors.map((vector) => vector.map((value, axis) => (value < shape[axis] ? value : 0)));

  function ctaBases(shape, ctas) {
    const tile = ctaTile(shape, ctas);
    return clip(ctas.map((basis) => basis.map((value, axis) => value * tile[axis])), shape);
  }

  function blocked(fields, shape) {
    const rank = shape.length;
    const ctas = fields.ctas || [];
    checkShape(shape);
    checkOrder(fields.order, rank);
    const extents = Array(rank).fill(1);
    const levels = ["sizePerThread", "threadsPerWarp", "warpsPerCta"].map((name) => {
      checkSizes(name, fields[name], rank);
      const level = [];
      for (const axis of fields.order) {
        for (let size = 1; size < fields[name][axis]; size *= 2) {
          level.push(unit(axis, extents[axis], rank));
          extents[axis] *= 2;
        }
      }
      return level;
    });
    const tile = ctaTile(shape, ctas);
    const [register, lane, warp] = levels.map((level) => clip(level, tile));
    const registers = register.filter((vector) => vector.some(Boolean));
    for (const axis of fields.order) {
      for (let start = extents[axis]; start < tile[axis]; start *= 2) registers.push(unit(axis, start, rank));
    }
    return mapFromCoordinates({ register: registers, lane, warp, block: ctaBases(shape, ctas) }, shape);
  }

  function swizzled(fields, shape) {
    const rank = shape.length;
    const ctas = fields.ctas || [];
    checkShape(shape);
    checkOrder(fields.order, rank);
    for (const name of ["vec", "perPhase", "maxPhase"]) {
      if (!Number.isInteger(fields[name]) || fields[name] < 1) throw new LayoutError(`${name} must be positive`);
    }
    const tile = ctaTile(shape, ctas);
    const [column, row] = fields.order;
    const offset = [];
    for (const axis of fields.order) {
      for (let start = 1; start < tile[axis]; start *= 2) {
        const vector = unit(axis, start, rank);
        if (rank > 1 && axis === row) {
          const phase = Math.floor(start / fields.perPhase) % fields.maxPhase;
          vector[column] = (fields.vec * phase) % tile[column];
        }
        offset.push(vector);
      }
    }
    return mapFromCoordinates({ offset, block: ctaBases(shape, ctas) }, shape);
  }

  // -- memory

  const bytesOf = (elementBits) => Math.max(1, elementBits / 8);

  // For each bit of the flat index, the distance in elements that it stands for.
  function weightsOf(shape, strides) {
    const weights = [];
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      for (let bit = 0; bit < log2(shape[axis]); bit++) weights.push(strides[axis] * 2 ** bit);
    }
    return weights;
  }

  function distance(weights, index) {
    let total = 0;
    for (let bit = 0; index >> bit; bit++) if ((index >> bit) & 1) total += weights[bit];
    return total;
  }

  // Register masks whose elements lie 1, 2, 4, ... elements further.
  function contiguousRegisters(map, weights, limit, free) {
    const span = new Echelon(map.bases.register);
    let others = 0;
    for (const name of map.names) {
      if (name === "register") continue;
      map.bases[name].forEach((basis, bit) => { if (!(((free[name] || 0) >> bit) & 1)) others |= basis; });
    }
    const chain = [];
    while (2 << chain.length <= limit) {
      const weight = 1 << chain.length;
      const bit = weights.findIndex((value, index) => value === weight && !((others >> index) & 1));
      const mask = bit < 0 ? null : span.solve(1 << bit);
      if (mask === null) break;
      chain.push([bit, mask]);
    }
    const misaligned = () => weights.some(
      (weight, index) => !chain.some(([bit]) => bit === index) && weight % (1 << chain.length) !== 0);
    while (misaligned()) chain.pop();
    return chain.map(([, mask]) => mask);
  }

  // The distinct registers of a thread, in groups that hold consecutive elements.
  function registerGroups(columns, chain) {
    const low = chain.map((mask) => apply(columns, mask));
    const span = new Echelon(low);
    let starts = [0];
    columns.forEach((basis, bit) => {
      if (!span.add(basis)) return;
      let mask = 1 << bit;
      chain.forEach((chained, position) => { if (basis & low[position]) mask ^= chained; });
      starts = [...starts, ...starts.map((start) => start ^ mask)];
    });
    const members = table(chain);
    return starts.map((start) => Array.from(members, (member) => start ^ member));
  }

  function keptIndices(map, name, free) {
    const kept = [];
    for (let index = 0; index < 1 << map.bases[name].length; index++) if (!(index & (free[name] || 0))) kept.push(index);
    return kept;
  }

  // What one access of the whole tile asks of global memory: widest vector, requests, sectors, useful bytes.
  function globalAccess(map, strides, elementBits, store = false) {
    const bytes = bytesOf(elementBits);
    const weights = weightsOf(map.shape, strides);
    const free = store ? freeVariables(map) : {};
    const chain = contiguousRegisters(map, weights, Math.floor(VECTOR_BYTES / bytes), free);
    const groups = registerGroups(map.bases.register, chain);
    const span = groups[0].length * bytes;
    const images = Object.fromEntries(HARDWARE.map((name) => [name, table(map.bases[name])]));
    const lanes = keptIndices(map, "lane", free).map((index) => images.lane[index]);
    let requests = 0, sectors = 0, useful = 0;
    for (const block of keptIndices(map, "block", free)) {
      for (const warp of keptIndices(map, "warp", free)) {
        for (const group of groups) {
          const base = images.block[block] ^ images.warp[warp] ^ images.register[group[0]];
          const found = countRequest(lanes.map((lane) => distance(weights, base ^ lane) * bytes), span);
          requests += 1;
          sectors += found.sectors;
          useful += found.useful;
        }
      }
    }
    return { vector: groups[0].length, groups, requests, sectors, useful };
  }

  // Distinct sectors and bytes of one request, whose lanes access `span` bytes at each address.
  function countRequest(addresses, span) {
    const sorted = Float64Array.from(addresses).sort();
    const touched = new Set();
    let useful = 0, end = -Infinity;
    for (const start of sorted) {
      useful += start + span - Math.max(start, end);
      end = start + span;
      for (let byte = start; byte < start + span; byte += SECTOR_BYTES) touched.add(Math.floor(byte / SECTOR_BYTES));
      touched.add(Math.floor((start + span - 1) / SECTOR_BYTES));
    }
    return { sectors: touched.size, useful };
  }

  // The lanes that are served together: as many as fill all banks, or the memory's own groups of 16-byte reads.
  function phasesOf(memory, lanes, accessBytes, store) {
    const grouped = memory.groups;
    if (grouped && accessBytes === VECTOR_BYTES && !store && grouped.flat().length === lanes) return grouped;
    const count = Math.min(lanes, (memory.banks * WORD_BYTES) / Math.max(WORD_BYTES, accessBytes));
    return Array.from({ length: lanes / count }, (_, phase) => Array.from({ length: count }, (_, lane) => phase * count + lane));
  }

  // The lanes that are served together in an access whose lane bits add `columns`: on NVIDIA, two phases of a load where
  // all lanes read what their neighbours read, or all what the lanes next but one do.
  function servedTogether(memory, columns, accessBytes, store) {
    const phases = phasesOf(memory, 1 << columns.length, accessBytes, store);
    const ofNvidia = 1 << columns.length === MERGING_LANES && memory.banks === MERGING_LANES;
    if (store || !ofNvidia || phases.length === 1 || !columns.slice(0, 2).includes(0)) return phases;
    return Array.from({ length: phases.length / 2 }, (_, pair) => [...phases[2 * pair], ...phases[2 * pair + 1]]);
  }

  // Distinct words in the bank that has most of them, for lanes that access bytes at addresses.
  function worstBank(addresses, accessBytes, banks) {
    const words = Math.max(1, accessBytes / WORD_BYTES);
    const touched = new Set();
    for (const address of addresses) {
      for (let word = 0; word < words; word++) touched.add(Math.floor(address / WORD_BYTES) + word);
    }
    const perBank = new Map();
    for (const word of touched) perBank.set(word % banks, (perBank.get(word % banks) || 0) + 1);
    return Math.max(...perBank.values());
  }

  // Where the element at an offset lies, padding included.
  function padded(offset, padding) {
    return padding.reduce((total, [interval, amount]) => total + Math.floor(offset / interval) * amount, offset);
  }

  // The map from register, lane and warp to the offset in a shared tile.
  function offsetsIn(map, tile) {
    const span = new Echelon(tile.bases.offset);
    const bases = {};
    for (const name of ["register", "lane", "warp"]) {
      bases[name] = map.bases[name].map((basis) => {
        const offset = span.solve(basis);
        if (offset === null) {
          throw new LayoutError(`the shared tile of a CTA does not hold the element [${unflatten(basis, map.shape)}]`);
        }
        return offset;
      });
    }
    return bases;
  }

  // One CTA's accesses of a shared tile with the widest vectors; `least` counts them without conflicts.
  function sharedTraffic(map, tile, padding, elementBits, memory, store = false) {
    const bytes = bytesOf(elementBits);
    const bases = offsetsIn(map, tile);
    const held = new Echelon(bases.register);
    const others = [...bases.lane, ...bases.warp].reduce((all, basis) => all | basis, 0);
    const limit = Math.min(VECTOR_BYTES / bytes, ...padding.flat());
    let vector = 1;
    while (2 * vector <= limit && held.has(vector) && !(others & vector)) vector *= 2;
    const starts = [...new Set(Array.from(table(bases.register), (offset) => offset & -vector))];
    const warps = table(bases.warp);
    const lanes = table(bases.lane);
    const groups = servedTogether(memory, bases.lane, bytes * vector, store);
    const instructions = starts.length * warps.length;
    // Without padding a register or warp only renames banks: all accesses cost the same.
    let wavefronts = 0;
    for (const warp of padding.length ? warps : warps.slice(0, 1)) {
      for (const start of padding.length ? starts : starts.slice(0, 1)) {
        const address = (lane) => padded((lanes[lane] ^ start ^ warp) & -vector, padding) * bytes;
        for (const group of groups) wavefronts += worstBank(group.map(address), bytes * vector, memory.banks);
      }
    }
    if (!padding.length) wavefronts *= instructions;
    return { vector, instructions, wavefronts, least: groups.length * instructions };
  }

  return {
    HARDWARE, SECTOR_BYTES, WORD_BYTES, LayoutError, Echelon, apply, blocked, bytesOf, columnsOf, countRequest, distance,
    flatten, freeVariables, globalAccess, holders, isPowerOfTwo, log2, mapFromCoordinates, padded, product,
    sharedTraffic, split, swizzled, table, unflatten, weightsOf,
  };
})();
