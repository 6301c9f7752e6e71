"use strict";

// The controls: what is edited, what follows from it, and how that is told.
(() => {
  const find = (id) => document.getElementById(id);
  const model = JSON.parse(find("model").textContent);
  const copyOf = (value) => JSON.parse(JSON.stringify(value));
  const POWERS = [1, 2, 4, 8, 16, 32, 64, 128, 256];
  const state = copyOf(model.state);
  const settings = { view: model.view, color: model.view === "shared" ? "bank" : "warp", outline: "thread", zoom: 0 };
  let scene = null, baseline = null, pinned = false;

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== false && value !== undefined) element.setAttribute(name, value === true ? "" : value);
    }
    element.append(...children);
    return element;
  }

  // -- bases as text: one line per input dimension, `lane: [0,1] [0,2]`

  function basesText(map) {
    return map.names.map((name) => {
      const vectors = map.bases[name].map((basis) => `[${algebra.unflatten(basis, map.shape).join(",")}]`);
      return `${name}: ${vectors.join(" ")}`.trimEnd();
    }).join("\n");
  }

  function readBases(text, names) {
    const vectors = Object.fromEntries(names.map((name) => [name, []]));
    for (const line of text.split("\n").map((part) => part.trim()).filter(Boolean)) {
      const match = /^(\w+)\s*:\s*((?:\[[\d\s,]+\][\s,]*)*)$/.exec(line);
      if (!match || !(match[1] in vectors)) {
        throw new algebra.LayoutError(`"${line}" is no line such as ${names[0]}: [0,1] [0,2]`);
      }
      vectors[match[1]] = [...match[2].matchAll(/\[([^\]]*)\]/g)].map((found) => readNumbers(found[1]));
    }
    return vectors;
  }

  function readNumbers(text) {
    const parts = text.split(/[\s,x×]+/).filter(Boolean);
    if (!parts.every((part) => /^-?\d+$/.test(part))) throw new algebra.LayoutError(`"${text}" is no list of integers`);
    return parts.map(Number);
  }

  function readPadding(text) {
    return text.split(",").map((part) => part.trim()).filter(Boolean).map((part) => {
      const match = /^(\d+)\s*:\s*\+?(\d+)$/.exec(part);
      if (!match || !algebra.isPowerOfTwo(Number(match[1])) || !algebra.isPowerOfTwo(Number(match[2]))) {
        throw new algebra.LayoutError(`"${part}" is no padding such as 32:4, two powers of two`);
      }
      return [Number(match[1]), Number(match[2])];
    });
  }

  // -- from what is edited to what is shown

  function registerMap(side) {
    return side.kind === "blocked"
      ? algebra.blocked(side.fields, state.shape)
      : algebra.mapFromCoordinates(readBases(side.text, algebra.HARDWARE), state.shape);
  }

  function sharedMap() {
    return state.shared.kind === "swizzled"
      ? algebra.swizzled(state.shared.fields, state.shape)
      : algebra.mapFromCoordinates(readBases(state.shared.text, ["offset", "block"]), state.shape);
  }

  function strides() {
    if (state.order === "custom") {
      const given = readNumbers(state.stridesText);
      if (given.length !== state.shape.length) throw new algebra.LayoutError(`there must be ${state.shape.length} strides`);
      return given;
    }
    const axes = state.shape.map((_, axis) => axis);
    if (state.order === "row") axes.reverse();
    const result = Array(axes.length);
    axes.reduce((stride, axis) => { result[axis] = stride; return stride * state.shape[axis]; }, 1);
    return result;
  }

  const memory = () => model.memories[state.memory];

  function buildScene() {
    const map = registerMap(state.sides[state.side]);
    const tile = sharedMap();
    const padding = readPadding(state.shared.padding);
    const own = strides();
    const weights = algebra.weightsOf(state.shape, own);
    const bytes = algebra.bytesOf(state.elementBits);
    const { first, copies } = algebra.holders(map);
    const stored = algebra.holders(tile).first;
    const loads = algebra.globalAccess(map, own, state.elementBits);
    const groupOf = new Map(loads.groups.flatMap((group, index) => group.map((register) => [register, index])));
    const bits = Object.fromEntries(map.names.map((name) => [name, map.bases[name].length]));
    const offsetMask = (1 << tile.bases.offset.length) - 1;
    const built = {
      map, tile, padding, first, copies, bytes, loads, banks: memory().banks, lanes: 1 << bits.lane,
      place: (mask) => algebra.split(map, mask),
      mask: (place) => place.register | (place.lane << bits.register) | (place.warp << (bits.register + bits.lane))
        | (place.block << (bits.register + bits.lane + bits.warp)),
      address: (element) => algebra.distance(weights, element) * bytes,
      offset: (element) => algebra.padded(stored[element] & offsetMask, padding),
      block: (element) => stored[element] >> tile.bases.offset.length,
    };
    built.sector = (element) => Math.floor(built.address(element) / algebra.SECTOR_BYTES);
    built.bank = (element) => Math.floor((built.offset(element) * bytes) / algebra.WORD_BYTES) % memory().banks;
    built.request = (place) => groupOf.get(place.register);
    built.group = (kind, cell) => groupOfCell(built, kind, cell);
    built.related = (kind, cell) => relatedTo(built, kind, cell);
    built.costs = costsOf(built, own);
    return built;
  }

  function groupOfCell(built, kind, cell) {
    if (kind === "sector") return [built.sector(cell.element), 0];
    if (kind === "bank") return [built.bank(cell.element), memory().banks];
    const place = built.place(cell.mask);
    return [place[kind], 1 << built.map.bases[kind].length];
  }

  // Which cells belong with one: those of its thread, its request, its sector, its bank.
  function relatedTo(built, kind, cell) {
    const own = built.place(cell.mask);
    const sameWarp = (place) => place.warp === own.warp && place.block === own.block;
    const tests = {
      thread: (other) => { const place = built.place(other.mask); return sameWarp(place) && place.lane === own.lane; },
      request: (other) => {
        const place = built.place(other.mask);
        return sameWarp(place) && built.request(place) === built.request(own);
      },
      sector: (other) => built.sector(other.element) === built.sector(cell.element),
      bank: (other) => built.bank(other.element) === built.bank(cell.element),
      nothing: () => false,
    };
    return tests[kind];
  }

  function costsOf(built, own) {
    const { map, tile, padding, loads, bytes } = built;
    const stores = algebra.globalAccess(map, own, state.elementBits, true);
    const warps = 1 << (map.bases.warp.length + map.bases.block.length);
    const elements = 1 << map.bases.register.length;
    const costs = {
      elements,
      registers: Math.ceil((elements * bytes) / algebra.WORD_BYTES),
      copies: built.copies.length,
      global: [loads, stores].map((access) => ({
        width: access.vector * bytes, requests: access.requests / warps, sectors: access.sectors / access.requests,
        used: access.useful / (access.sectors * algebra.SECTOR_BYTES),
      })),
    };
    try {
      costs.shared = [false, true].map((store) => {
        const traffic = algebra.sharedTraffic(map, tile, padding, state.elementBits, memory(), store);
        const allWarps = 1 << map.bases.warp.length;
        return { width: traffic.vector * bytes, accesses: traffic.instructions / allWarps,
          wavefronts: traffic.wavefronts / allWarps, conflicts: traffic.wavefronts / traffic.least };
      });
    } catch (error) {
      if (!(error instanceof algebra.LayoutError)) throw error;
      costs.sharedProblem = error.message;
    }
    return costs;
  }

  // -- telling it

  const round = (value) => String(Math.round(value * 100) / 100);

  function costCell(value, before, text, isGood) {
    const cell = make("td");
    if (before !== undefined && before !== value) cell.append(make("s", {}, text(before)), " ");
    cell.append(isGood === undefined ? text(value) : make("span", { class: isGood ? "good" : "bad" }, text(value)));
    return cell;
  }

  function costRow(name, read, text, judge = () => undefined) {
    const row = make("tr", {}, make("th", {}, name));
    [0, 1].forEach((index) => {
      const value = read(scene.costs, index);
      row.append(costCell(value, baseline ? read(baseline, index) : undefined, text, judge(value)));
    });
    return row;
  }

  function showCosts() {
    const { costs } = scene;
    const heading = (text) =>
      make("tr", { class: "head" }, make("th", {}, text), make("th", {}, "load"), make("th", {}, "store"));
    const wide = (name, field) => {
      const cell = costCell(costs[field], baseline ? baseline[field] : undefined, String);
      cell.colSpan = 2;
      return make("tr", {}, make("th", {}, name), cell);
    };
    const table = [
      make("tbody", {},
        wide("elements a thread", "elements"), wide("32-bit registers", "registers"), wide("copies of an element", "copies")),
      make("tbody", {}, heading("Global memory"),
        costRow("bytes a lane", (all, index) => all.global[index].width, round),
        costRow("requests a warp", (all, index) => all.global[index].requests, round),
        costRow("sectors a request", (all, index) => all.global[index].sectors, round),
        costRow("bytes used", (all, index) => all.global[index].used, (value) => `${round(value * 100)} %`, (value) => value > 0.999)),
    ];
    const read = (field) => (all, index) => all.shared ? all.shared[index][field] : undefined;
    const text = (value) => value === undefined ? "–" : round(value);
    table.push(costs.shared
      ? make("tbody", {}, heading("Shared memory"),
        costRow("bytes a lane", read("width"), text),
        costRow("accesses a thread", read("accesses"), text),
        costRow("wavefronts a warp", read("wavefronts"), text),
        costRow("bank conflicts", read("conflicts"),
          (value) => value === undefined ? "–" : value > 1 ? `${round(value)}-fold` : "none", (value) => !(value > 1)))
      : make("tbody", {}, heading("Shared memory"),
        make("tr", {}, make("td", { colspan: 3, style: "white-space:normal;text-align:left" }, costs.sharedProblem))));
    find("costs").replaceChildren(...table);
  }

  function showElement(cell) {
    const box = find("element");
    find("pinned").hidden = !pinned;
    if (!cell) {
      box.replaceChildren(make("p", {}, "Point at a cell to see who holds it and where it lies. Click to keep it."));
      return;
    }
    const place = scene.place(cell.mask);
    const several = scene.map.bases.block.length > 0;
    const name = (mask) => {
      const { register, lane, warp, block } = scene.place(mask);
      return `${several ? `B${block}:` : ""}T${lane + scene.lanes * warp}:${register}`;
    };
    const address = scene.address(cell.element), offset = scene.offset(cell.element);
    const entries = [
      ["register", String(place.register)],
      ["lane", String(place.lane), `thread ${place.lane + scene.lanes * place.warp}`],
      ["warp", String(place.warp)],
      ...(several ? [["CTA", String(place.block)]] : []),
      ["sector", String(Math.floor(address / algebra.SECTOR_BYTES)), `byte ${address}`],
      ["bank", String(scene.bank(cell.element)), `offset ${offset}, byte ${offset * scene.bytes}`],
    ];
    if (scene.copies.length > 1) {
      const all = Array.from(scene.copies.slice(0, 9), (copy) => name(scene.first[cell.element] ^ copy));
      entries.push(["held by", all.slice(0, 8).join(" ") + (scene.copies.length > 8 ? ` … ${scene.copies.length} in all` : "")]);
    }
    const list = entries.flatMap(([term, value, note]) =>
      [make("dt", {}, term), make("dd", {}, value, ...(note ? [" ", make("small", {}, note)] : []))]);
    box.replaceChildren(
      make("div", { class: "where" }, `[${algebra.unflatten(cell.element, scene.map.shape).join(", ")}]`),
      make("dl", {}, ...list));
  }

  function showLegend() {
    const counts = { warp: scene.map.bases.warp, lane: scene.map.bases.lane, register: scene.map.bases.register, block: scene.map.bases.block };
    const legend = find("legend");
    if (settings.color === "sector") {
      legend.replaceChildren("Cells of one colour side by side share a sector of 32 bytes.");
      return;
    }
    const count = settings.color === "bank" ? memory().banks : 1 << counts[settings.color].length;
    const step = Math.max(1, count / 16);
    const items = [];
    for (let value = 0; value < count; value += step) {
      const swatch = make("i");
      swatch.style.background = picture.color(settings.color, value, count);
      items.push(make("span", {}, swatch, `${settings.color === "block" ? "CTA" : settings.color} ${value}`));
    }
    legend.replaceChildren(...items);
  }

  function list(values) { return `[${values.join(", ")}]`; }

  function spelling(side) {
    if (side.spelling) return side.spelling;
    if (side.kind === "blocked") {
      const { sizePerThread, threadsPerWarp, warpsPerCta, order, ctas } = side.fields;
      const lists = [sizePerThread, threadsPerWarp, warpsPerCta, order].map(list);
      return `BlockedLayout(${[...lists, ...(ctas.length ? [list(ctas.map(list))] : [])].join(", ")})`;
    }
    const vectors = readBases(side.text, algebra.HARDWARE);
    const lists = algebra.HARDWARE.map((name) => list(vectors[name].map(list)));
    return `DistributedLinearLayout(${[...lists, list(state.shape)].join(", ")})`;
  }

  // -- controls

  function choice(box, options, chosen, choose) {
    box.replaceChildren(...options.map(([value, text]) =>
      make("button", { type: "button", "aria-pressed": String(value === chosen), "data-value": value, onclick: () => choose(value) }, text)));
  }

  function select(options, chosen, choose, label) {
    const box = make("select", { "aria-label": label, onchange: () => choose(box.value) });
    for (const option of options) {
      const [value, text] = Array.isArray(option) ? option : [option, option];
      box.append(make("option", { value, selected: String(value) === String(chosen) }, String(text)));
    }
    return box;
  }

  function textField(value, change, label, placeholder = "") {
    const box = make("input", { type: "text", value, "aria-label": label, placeholder, spellcheck: "false", onchange: () => change(box.value) });
    return box;
  }

  function sizeRow(owner, field, name) {
    const boxes = owner[field].map((value, axis) =>
      select(POWERS.includes(value) ? POWERS : [...POWERS, value], value, (chosen) => edit(() => { owner[field][axis] = Number(chosen); }), `${name}, dimension ${axis}`));
    return [make("span", {}, name), make("div", { class: "sizes" }, ...boxes)];
  }

  function permutations(rank) {
    if (rank === 0) return [[]];
    return permutations(rank - 1).flatMap((rest) =>
      Array.from({ length: rank }, (_, place) => [...rest.slice(0, place), rank - 1, ...rest.slice(place)]));
  }

  function orderRow(fields) {
    const options = permutations(fields.order.length).map((order) => list(order)).reverse();
    const change = (text) => edit(() => { fields.order = readNumbers(text.slice(1, -1)); });
    return [make("span", {}, "order"), select(options, list(fields.order), change, "order")];
  }

  function edit(change) {
    const before = copyOf(state);
    try {
      change();
    } catch (error) {
      if (!(error instanceof algebra.LayoutError)) throw error;
      Object.assign(state, before);
      refresh(error.message);
      return;
    }
    for (const side of state.sides) if (JSON.stringify(side) !== JSON.stringify(before.sides[state.sides.indexOf(side)])) side.spelling = "";
    find("reset").hidden = false;
    find("plan").hidden = true;
    refresh();
  }

  function changeShape(text) {
    const shape = readNumbers(text);
    if (!shape.length || shape.length > 5 || !shape.every(algebra.isPowerOfTwo)) {
      throw new algebra.LayoutError(`"${text}" is no shape such as 32x16: one to five powers of two`);
    }
    const rank = shape.length;
    const fit = (sizes) => Array.from({ length: rank }, (_, axis) => sizes[axis + sizes.length - rank] || 1);
    const fitOrder = (order) => order.length === rank ? order : Array.from({ length: rank }, (_, axis) => rank - 1 - axis);
    for (const side of state.sides) {
      if (!side.fields || side.fields.order.length === rank) continue;
      for (const name of ["sizePerThread", "threadsPerWarp", "warpsPerCta"]) side.fields[name] = fit(side.fields[name]);
      side.fields.order = fitOrder(side.fields.order);
      side.fields.ctas = side.fields.ctas.map(() => Array(rank).fill(0));
    }
    if (state.shared.fields) state.shared.fields.order = fitOrder(state.shared.fields.order);
    if (state.order === "custom" && rank !== state.shape.length) state.order = "row";
    state.shape = shape;
  }

  function showForms(error) {
    const side = state.sides[state.side];
    choice(find("side"), state.sides.length > 1 ? [[0, "from"], [1, "to"]] : [], state.side, (value) => { state.side = value; baseline = null; refresh(); baseline = scene.costs; });
    const kind = make("div", { class: "choice kind" });
    choice(kind, [["blocked", "Blocked"], ["bases", "Bases"]], side.kind, (value) => edit(() => {
      if (value === "bases") side.text = basesText(scene.map);
      else side.fields ||= copyOf(model.blocked);
      side.kind = value;
    }));
    const lanes = scene ? scene.lanes : 0;
    const warps = scene ? 1 << scene.map.bases.warp.length : 0;
    const note = `${lanes} lanes, ${warps} warp${warps === 1 ? "" : "s"}`;
    const odd = model.lanes && lanes !== model.lanes ? `; ${model.target} has warps of ${model.lanes}` : "";
    find("registers").replaceChildren(kind, side.kind === "blocked" ? blockedForm(side.fields) : basesForm(side, "Bases of registers, lanes, warps and CTAs"),
      make("p", { class: "note" }, note + odd), ...(error ? [make("p", { class: "error", role: "alert" }, error)] : []));
    find("tensor").replaceChildren(...tensorForm());
    find("shared").replaceChildren(...sharedForm());
  }

  function blockedForm(fields) {
    return make("div", { class: "form" }, ...sizeRow(fields, "sizePerThread", "size_per_thread"),
      ...sizeRow(fields, "threadsPerWarp", "threads_per_warp"), ...sizeRow(fields, "warpsPerCta", "warps_per_cta"), ...orderRow(fields));
  }

  function basesForm(owner, label) {
    const box = make("textarea", { "aria-label": label, spellcheck: "false", rows: owner.text.split("\n").length + 1, onchange: () => edit(() => { owner.text = box.value; }) });
    box.value = owner.text;
    return box;
  }

  function tensorForm() {
    const orders = [["row", "row by row"], ["column", "column by column"], ["custom", "strides"]];
    const rows = [
      make("span", {}, "shape"), textField(state.shape.join("x"), (text) => edit(() => changeShape(text)), "shape"),
      make("span", {}, "element bits"), select([8, 16, 32, 64], state.elementBits, (value) => edit(() => { state.elementBits = Number(value); }), "element bits"),
      make("span", {}, "in memory"), select(orders, state.order, (value) => edit(() => {
        if (value === "custom") state.stridesText = strides().join(", ");
        state.order = value;
      }), "memory order"),
    ];
    if (state.order === "custom") {
      rows.push(make("span", {}, "strides"), textField(state.stridesText, (text) => edit(() => { readNumbers(text); state.stridesText = text; }), "strides"));
    }
    return rows;
  }

  function sharedForm() {
    const { shared } = state;
    const kind = make("div", { class: "choice kind" });
    choice(kind, [["swizzled", "Swizzled"], ["bases", "Bases"]], shared.kind, (value) => edit(() => {
      if (value === "bases") shared.text = basesText(scene.tile);
      else shared.fields ||= copyOf(model.swizzled);
      shared.kind = value;
    }));
    const common = [
      make("span", {}, "padding"), textField(shared.padding, (text) => edit(() => { readPadding(text); shared.padding = text; }), "padding", "32:4"),
      make("span", {}, "banks"), select(model.memories.map(({ name }, index) => [index, name]), state.memory, (value) => edit(() => { state.memory = Number(value); }), "banks"),
    ];
    if (shared.kind === "bases") return [kind, basesForm(shared, "Bases of offsets and CTAs"), make("div", { class: "form", style: "margin-top:6px" }, ...common)];
    const numbers = [["vec", "vec"], ["perPhase", "per_phase"], ["maxPhase", "max_phase"]].flatMap(([field, name]) =>
      [make("span", {}, name), select(POWERS, shared.fields[field], (value) => edit(() => { shared.fields[field] = Number(value); }), name)]);
    return [kind, make("div", { class: "form" }, ...numbers, ...orderRow(shared.fields), ...common)];
  }

  function showToolbar() {
    choice(find("view"), [["tensor", "Tensor"], ["hardware", "Hardware"], ["shared", "Shared memory"]], settings.view, (value) => {
      settings.view = value;
      settings.zoom = 0;
      refresh();
    });
    const ctas = scene.map.bases.block.length ? [["block", "CTA"]] : [];
    const kinds = [["warp", "warp"], ["lane", "lane"], ["register", "register"], ...ctas, ["bank", "bank"], ["sector", "sector"]];
    const outlines = ["thread", "request", "sector", "bank", "nothing"].map((name) => [name, name]);
    for (const [id, options] of [["color", kinds], ["outline", outlines]]) {
      const box = select(options, settings[id], (value) => { settings[id] = value; refresh(); }, id);
      box.id = id;
      find(id).replaceWith(box);
    }
  }

  function refresh(problem = "") {
    let error = problem;
    try {
      scene = buildScene();
    } catch (caught) {
      if (!(caught instanceof algebra.LayoutError)) throw caught;
      error ||= caught.message;
    }
    if (!scene) return;
    showToolbar();
    showForms(error);
    if (!settings.zoom) {
      picture.show(scene, { ...settings, zoom: 24 });
      settings.zoom = picture.fitting();
    }
    find("zoom").value = settings.zoom;
    picture.show(scene, settings);
    showLegend();
    showCosts();
    if (!error) find("spelling").textContent = find("spelling").title = state.sides.map(spelling).join("  \u2192  ");
    picture.select(...picture.selection());
  }

  const picture = board.create(find("viewport"), find("spacer"), find("canvas"), showElement);

  function listen() {
    const viewport = find("viewport");
    viewport.addEventListener("mousemove", (event) => {
      const [row, column] = picture.cellAt(event);
      if (!pinned && row >= 0) picture.select(row, column);
    });
    viewport.addEventListener("click", (event) => { pinned = !pinned; picture.select(...picture.cellAt(event)); });
    const steps = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    viewport.addEventListener("keydown", (event) => {
      if (event.key in steps) picture.move(...steps[event.key]);
      else if (event.key === "Enter") { pinned = !pinned; find("pinned").hidden = !pinned; }
      else if (event.key === "Escape") { pinned = false; picture.select(-1, -1); }
      else return;
      event.preventDefault();
    });
    find("zoom").addEventListener("input", () => { settings.zoom = Number(find("zoom").value); picture.show(scene, settings); });
    find("fit").addEventListener("click", () => { settings.zoom = 0; refresh(); });
    find("copy").addEventListener("click", () => {
      navigator.clipboard?.writeText(spelling(state.sides[state.side]));
      find("copy").textContent = "Copied";
      setTimeout(() => { find("copy").textContent = "Copy"; }, 1200);
    });
    find("reset").addEventListener("click", () => {
      Object.assign(state, copyOf(model.state));
      find("reset").hidden = true;
      find("plan").hidden = !model.plan;
      refresh();
    });
  }

  find("plan").textContent = model.plan;
  find("plan").hidden = !model.plan;
  listen();
  refresh();
  baseline = scene && scene.costs;
})();
