"use strict";

// The picture: a table of cells that is drawn on a canvas as large as what is visible of it.
const board = (() => {
  const HEAD_HEIGHT = 22;
  const FOLD = 32;
  const LABEL_WIDTH = 30;

  // -- what is shown where: each view gives rows, columns, labels and, for a cell, its element and holder

  function tensorView(scene) {
    const { shape } = scene.map;
    const elements = algebra.product(shape);
    const columns = shape.length === 1 ? Math.min(FOLD, elements) : shape[shape.length - 1];
    const leading = shape.slice(0, -1);
    return {
      rows: elements / columns,
      columns,
      rowLabel: (row) => shape.length === 1 ? String(row * columns) : algebra.unflatten(row, leading).join(","),
      columnLabel: (column) => String(column),
      // A rule between the matrices of a tensor of higher rank.
      rule: (row) => shape.length > 2 && row % shape[shape.length - 2] === 0,
      cell: (row, column) => {
        const element = row * columns + column;
        return { element, mask: scene.first[element] };
      },
      label: (cell) => {
        const place = scene.place(cell.mask);
        return [`T${place.lane + scene.lanes * place.warp}`, `r${place.register}`];
      },
    };
  }

  function hardwareView(scene) {
    const registers = 1 << scene.map.bases.register.length;
    const warps = 1 << scene.map.bases.warp.length;
    const blocks = 1 << scene.map.bases.block.length;
    const images = Object.fromEntries(algebra.HARDWARE.map((name) => [name, algebra.table(scene.map.bases[name])]));
    const parts = (row) => [row % registers, Math.floor(row / registers) % warps, Math.floor(row / registers / warps)];
    return {
      rows: registers * warps * blocks,
      columns: scene.lanes,
      rowLabel: (row) => {
        const [register, warp, block] = parts(row);
        return (blocks > 1 ? `c${block} ` : "") + `w${warp} r${register}`;
      },
      columnLabel: (column) => `${column}`,
      rule: (row) => row % registers === 0,
      cell: (row, column) => {
        const [register, warp, block] = parts(row);
        const element = images.register[register] ^ images.lane[column] ^ images.warp[warp] ^ images.block[block];
        return { element, mask: scene.mask({ register, lane: column, warp, block }) };
      },
      label: (cell) => [algebra.unflatten(cell.element, scene.map.shape).join(",")],
    };
  }

  function sharedView(scene) {
    const offsets = algebra.table(scene.tile.bases.offset);
    const blocks = algebra.table(scene.tile.bases.block);
    const stored = new Map();
    offsets.forEach((element, offset) => stored.set(algebra.padded(offset, scene.padding), element));
    const size = algebra.padded(offsets.length - 1, scene.padding) + 1;
    const wide = Math.max(1, (scene.banks * algebra.WORD_BYTES) / scene.bytes);
    const columns = Math.min(wide, size);
    const rows = Math.ceil(size / columns);
    return {
      rows: rows * blocks.length,
      columns,
      rowLabel: (row) => (blocks.length > 1 ? `c${Math.floor(row / rows)} ` : "") + (row % rows) * columns,
      columnLabel: (column) => `b${Math.floor((column * scene.bytes) / algebra.WORD_BYTES)}`,
      rule: (row) => row % rows === 0,
      cell: (row, column) => {
        const element = stored.get((row % rows) * columns + column);
        if (element === undefined) return null;
        const held = element ^ blocks[Math.floor(row / rows)];
        return { element: held, mask: scene.first[held] };
      },
      label: (cell) => [algebra.unflatten(cell.element, scene.map.shape).join(",")],
    };
  }

  const VIEWS = { tensor: tensorView, hardware: hardwareView, shared: sharedView };

  // -- colours

  // Hues are spread over the values; of sectors, which are many, neighbours differ most. Odd shades are darker.
  function colorOf(kind, value, count, dark, odd = false) {
    const hue = kind === "sector" ? value * 137.508 : 255 + (360 * value) / Math.max(count, 1);
    const lightness = (dark ? 0.46 : 0.89) - (odd ? 0.035 : 0);
    return `oklch(${lightness} 0.085 ${(hue % 360).toFixed(1)})`;
  }

  const isOdd = (value) => { let odd = false; for (; value; value &= value - 1) odd = !odd; return odd; };

  // -- drawing

  function create(viewport, spacer, canvas, onHover) {
    const screen = canvas.getContext("2d");
    // Cells are drawn once; a new selection only draws outlines over them.
    const cells = document.createElement("canvas");
    const context = cells.getContext("2d");
    const dark = () => matchMedia("(prefers-color-scheme: dark)").matches;
    let scene = null, view = null, settings = null, selected = { row: 0, column: 0 }, sideWidth = 40;

    const gap = () => (settings.zoom >= 14 ? 1 : 0);
    const cellWidth = () => settings.zoom;
    const cellHeight = () => Math.max(4, Math.min(settings.zoom, settings.zoom * 0.42 + 8));

    function show(newScene, newSettings) {
      scene = newScene;
      settings = newSettings;
      view = VIEWS[settings.view](scene);
      if (selected && (selected.row >= view.rows || selected.column >= view.columns)) selected = { row: 0, column: 0 };
      context.font = labelFont(11);
      const longest = [0, view.rows - 1, (view.rows >> 1) - 1].map((row) => view.rowLabel(Math.max(0, row)));
      sideWidth = Math.ceil(Math.max(...longest.map((text) => context.measureText(text).width))) + 14;
      spacer.style.width = `${sideWidth + view.columns * cellWidth() + 8}px`;
      spacer.style.height = `${HEAD_HEIGHT + view.rows * cellHeight() + 8}px`;
      draw();
    }

    // The zoom at which the table is as wide as the viewport, within reason.
    function fitting() {
      const room = (viewport.clientWidth - sideWidth - 16) / (view ? view.columns : 1);
      return Math.max(4, Math.min(64, Math.floor(room)));
    }

    const labelFont = (size) => `${size}px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace`;

    function draw(isSelection = false) {
      if (!view) return;
      const width = viewport.clientWidth, height = viewport.clientHeight, ratio = devicePixelRatio || 1;
      const style = getComputedStyle(document.body);
      const ink = { text: style.getPropertyValue("--text"), quiet: style.getPropertyValue("--quiet"),
        card: style.getPropertyValue("--card"), line: style.getPropertyValue("--line"),
        head: style.getPropertyValue("--head") };
      const firstRow = Math.floor(viewport.scrollTop / cellHeight());
      const lastRow = Math.min(view.rows, Math.ceil((viewport.scrollTop + height) / cellHeight()) + 1);
      const firstColumn = Math.floor(viewport.scrollLeft / cellWidth());
      const lastColumn = Math.min(view.columns, Math.ceil((viewport.scrollLeft + width) / cellWidth()) + 1);
      const range = { firstRow, lastRow, firstColumn, lastColumn };
      if (!isSelection) {
        resize(cells, context, width, height, ratio);
        drawCells(range, ink);
      }
      resize(canvas, screen, width, height, ratio);
      screen.drawImage(cells, 0, 0, width, height);
      drawOutlines(range, ink);
      drawHeads(range, ink, width, height);
    }

    function resize(target, brush, width, height, ratio) {
      target.width = width * ratio;
      target.height = height * ratio;
      target.style.width = `${width}px`;
      target.style.height = `${height}px`;
      brush.setTransform(ratio, 0, 0, ratio, 0, 0);
    }

    const left = (column) => sideWidth + column * cellWidth() - viewport.scrollLeft;
    const top = (row) => HEAD_HEIGHT + row * cellHeight() - viewport.scrollTop;

    function drawCells({ firstRow, lastRow, firstColumn, lastColumn }, ink) {
      const isDark = dark();
      const size = Math.min(12, cellWidth() / 4.2, cellHeight() * 0.62);
      context.textAlign = "center";
      context.textBaseline = "middle";
      context.font = labelFont(Math.max(7, size));
      for (let row = firstRow; row < lastRow; row++) {
        for (let column = firstColumn; column < lastColumn; column++) {
          const cell = view.cell(row, column);
          const x = left(column), y = top(row);
          if (cell === null) {
            context.fillStyle = ink.line;
            context.fillRect(x + cellWidth() / 2 - 1.5, y + cellHeight() / 2 - 1.5, 3, 3);
            continue;
          }
          const [value, count] = scene.group(settings.color, cell);
          const shaded = settings.color === "warp" && isOdd(scene.place(cell.mask).lane);
          context.fillStyle = colorOf(settings.color, value, count, isDark, shaded);
          context.fillRect(x, y, cellWidth() - gap(), cellHeight() - gap());
          if (cellWidth() >= LABEL_WIDTH && size >= 6) {
            context.fillStyle = ink.text;
            const [main, detail] = view.label(cell);
            const text = detail && cellWidth() >= 44 ? `${main}:${detail.slice(1)}` : main;
            context.fillText(text, x + cellWidth() / 2, y + cellHeight() / 2 + 0.5, cellWidth() - 4);
          }
        }
      }
    }

    function drawOutlines({ firstRow, lastRow, firstColumn, lastColumn }, ink) {
      if (!selected) return;
      const active = view.cell(selected.row, selected.column);
      const related = active ? scene.related(settings.outline, active) : () => false;
      screen.strokeStyle = ink.text;
      screen.lineWidth = cellWidth() < 16 ? 1 : 1.5;
      const inset = 0.75, width = cellWidth() - gap(), height = cellHeight() - gap();
      for (let row = firstRow; row < lastRow; row++) {
        for (let column = firstColumn; column < lastColumn; column++) {
          const cell = view.cell(row, column);
          if (cell === null || !related(cell)) continue;
          screen.strokeRect(left(column) + inset, top(row) + inset, width - 2 * inset, height - 2 * inset);
        }
      }
      screen.lineWidth = 3;
      screen.strokeRect(left(selected.column), top(selected.row), width, height);
    }

    function drawHeads({ firstRow, lastRow, firstColumn, lastColumn }, ink, width, height) {
      screen.fillStyle = ink.card;
      screen.fillRect(0, 0, width, HEAD_HEIGHT);
      screen.fillRect(0, 0, sideWidth, height);
      screen.font = labelFont(11);
      screen.textBaseline = "middle";
      const columnStep = Math.max(1, 2 ** Math.ceil(Math.log2(26 / cellWidth())));
      const rowStep = Math.max(1, 2 ** Math.ceil(Math.log2(13 / cellHeight())));
      screen.textAlign = "center";
      for (let column = firstColumn; column < lastColumn; column++) {
        if (column % columnStep || left(column) < sideWidth - cellWidth() / 2) continue;
        screen.fillStyle = selected && selected.column === column ? ink.text : ink.quiet;
        screen.fillText(view.columnLabel(column), left(column) + cellWidth() / 2, HEAD_HEIGHT / 2 + 1);
      }
      screen.textAlign = "right";
      for (let row = firstRow; row < lastRow; row++) {
        if (top(row) < HEAD_HEIGHT - cellHeight() / 2) continue;
        if (row > 0 && view.rule(row)) {
          screen.fillStyle = ink.quiet;
          screen.fillRect(0, top(row) - 1, sideWidth + view.columns * cellWidth() - viewport.scrollLeft, 1);
        }
        if (row % rowStep) continue;
        screen.fillStyle = selected && selected.row === row ? ink.text : ink.quiet;
        screen.fillText(view.rowLabel(row), sideWidth - 7, top(row) + cellHeight() / 2 + 0.5);
      }
    }

    function select(row, column) {
      const inside = view && row >= 0 && column >= 0 && row < view.rows && column < view.columns;
      selected = inside ? { row, column } : null;
      draw(true);
      onHover(inside ? view.cell(row, column) : null);
    }

    function cellAt(event) {
      const box = viewport.getBoundingClientRect();
      const x = event.clientX - box.left, y = event.clientY - box.top;
      if (x < sideWidth || y < HEAD_HEIGHT) return [-1, -1];
      return [
        Math.floor((y - HEAD_HEIGHT + viewport.scrollTop) / cellHeight()),
        Math.floor((x - sideWidth + viewport.scrollLeft) / cellWidth()),
      ];
    }

    function move(rows, columns) {
      const { row, column } = selected || { row: 0, column: 0 };
      const next = [Math.min(Math.max(row + rows, 0), view.rows - 1), Math.min(Math.max(column + columns, 0), view.columns - 1)];
      const x = next[1] * cellWidth(), y = next[0] * cellHeight();
      viewport.scrollLeft = Math.max(x + sideWidth + cellWidth() - viewport.clientWidth, Math.min(viewport.scrollLeft, x));
      viewport.scrollTop = Math.max(y + HEAD_HEIGHT + cellHeight() - viewport.clientHeight, Math.min(viewport.scrollTop, y));
      select(...next);
    }

    viewport.addEventListener("scroll", () => draw());
    new ResizeObserver(() => draw()).observe(viewport);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
    const selection = () => (selected ? [selected.row, selected.column] : [-1, -1]);
    return { show, draw, select, selection, cellAt, move, fitting, color: (...about) => colorOf(...about, dark()) };
  }

  return { create };
})();
