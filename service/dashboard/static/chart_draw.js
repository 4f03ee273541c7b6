// Draws series with uPlot: lines, bands and marks in the page's colours, ceilings, what is pointed at.

import uPlot from "./vendor/uplot/uPlot.esm.js";
import { drawLabels, roomFor } from "./chart_labels.js";
import { band, ceilings, ceilingWords, stamp } from "./chart_paint.js";
import { axisOf, isDisturbed } from "./chart_rows.js";
import { LONGEST_WORD, meet, nearPeaks, nearestAlong, shapeOf, ticks } from "./chart_scale.js";

/** @typedef {import("./chart_rows.js").Series} Series */
/** @typedef {import("./chart_rows.js").Point} Point */
/** @typedef {import("./chart_rows.js").Choice} Choice */
/** Class of the colour, dashes, outline of the mark.
 * @typedef {[string, string, string]} Style */
/** @typedef {{dtype: string, kind: string, gflops: number, words: string}} Peak */
/** All that a drawing depends on.
 * @typedef {object} Scene
 * @property {Series[]} series
 * @property {string[] | null} words  what places along the x axis stand for
 * @property {Choice} choice
 * @property {Peak[]} peaks
 * @property {Map<string, Style>} styles
 * @property {Set<string>} hidden */
/** @typedef {[number, number]} Span */

const MARK = 4;
const REACH = 40; // pixels within which a point is meant
const HEIGHT = 420;
const FONT = "12px system-ui, sans-serif";
const LETTER = 7;
const SIZES = ["m", "n", "k"]; // fields whose powers of two are told along the x axis

export class Chart {
  /** @param {HTMLElement} host @param {(point: Point | null, left: number, top: number) => void} onPoint */
  constructor(host, onPoint) {
    this.host = host;
    this.onPoint = onPoint;
    /** @type {Scene | null} */
    this.scene = null;
    /** @type {uPlot | null} */
    this.plot = null;
    /** @type {{x: Span, y: Span} | null} */
    this.zoom = null;
    /** @type {Point | null} */
    this.at = null;
    this.axes = "";
    this.scales = "";
    this.shape = { xlog: false, ylog: false, x: /** @type {Span} */ ([0, 1]), y: /** @type {Span} */ ([0, 1]) };
    new ResizeObserver(() => this.resize()).observe(host);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.rebuild());
  }

  /** Shows the scene. What was pointed at stays while the axes are of the same fields; what was zoomed, while their
   * scales are the same too.
   * @param {Scene} scene */
  show(scene) {
    this.scene = scene;
    this.shape = shapeOf(scene);
    const { choice } = scene;
    const axes = [choice.x, choice.y, choice.colour, choice.configs].join();
    const scales = [this.shape.xlog, this.shape.ylog].join();
    if (axes !== this.axes) this.at = null;
    const isDrawn = axes === this.axes && scales === this.scales;
    if (!isDrawn) this.zoom = null;
    const isSame = isDrawn && scene.words === null && this.isBegun(scene);
    this.axes = axes;
    this.scales = scales;
    if (isSame) this.update();
    else this.rebuild();
  }

  /** Whether the lines that are drawn are the first of these.
   * @param {Scene} scene */
  isBegun(scene) {
    const drawn = this.plot?.series.slice(1);
    return drawn !== undefined && drawn.every((one, place) => one.label === scene.series[place]?.label);
  }

  rebuild() {
    this.plot?.destroy();
    this.plot = null;
    if (!this.scene) return;
    this.plot = new uPlot(this.options(), this.data(), this.host);
    const over = this.plot.over;
    over.addEventListener("pointermove", (event) => this.point(this.nearest(event.offsetX, event.offsetY)));
    over.addEventListener("pointerleave", () => this.point(null));
    over.addEventListener("dblclick", () => this.setZoom(null));
    this.again();
  }

  update() {
    const { plot, scene } = this;
    if (!plot || !scene) return;
    for (let place = plot.series.length - 1; place < scene.series.length; place++) {
      plot.addSeries(this.seriesOptions(scene.series[place].label));
    }
    scene.series.forEach((one, place) => {
      const isShown = !scene.hidden.has(one.label);
      if (plot.series[place + 1].show !== isShown) plot.setSeries(place + 1, { show: isShown });
    });
    plot.setData(this.data());
    this.again();
  }

  /** Points at what was pointed at before, where it is now. */
  again() {
    const { at } = this;
    if (at) this.point(this.visible().find((one) => one.series === at.series && one.x === at.x) ?? null);
  }

  resize() {
    if (!this.plot || this.host.clientWidth === 0) return;
    this.plot.setSize({ width: this.host.clientWidth, height: HEIGHT });
    this.again();
  }

  /** @param {{x: Span, y: Span} | null} zoom */
  setZoom(zoom) {
    this.zoom = zoom;
    this.plot?.setData(this.plot.data);
    this.point(null);
    this.host.dispatchEvent(new Event("zoom"));
  }

  visible() {
    const { scene } = this;
    return scene ? scene.series.filter((one) => !scene.hidden.has(one.label)).flatMap((one) => one.points) : [];
  }

  /** @param {number} left @param {number} top */
  nearest(left, top) {
    /** @type {Point | null} */
    let best = null;
    let least = REACH;
    for (const one of this.visible()) {
      const place = this.place(one);
      const far = Math.hypot(place.left - left, place.top - top);
      if (far < least) [best, least] = [one, far];
    }
    return best;
  }

  /** On the chart, in pixels of the page.
   * @param {Point} point */
  place(point) {
    const plot = /** @type {uPlot} */ (this.plot);
    return { left: plot.valToPos(point.x, "x"), top: plot.valToPos(point.y, "y") };
  }

  /** @param {Point | null} point */
  point(point) {
    this.at = point;
    const plot = this.plot;
    if (!point || !plot) return this.onPoint(null, 0, 0);
    const { left, top } = this.place(point);
    this.onPoint(point, left + plot.over.offsetLeft, top + plot.over.offsetTop);
  }

  /** To the next point of the same line, or to the next line.
   * @param {number} along @param {number} across */
  step(along, across) {
    const lines = (this.scene?.series ?? []).filter((one) => !this.scene?.hidden.has(one.label) && one.points.length);
    if (!lines.length) return;
    const { at } = this;
    const line = lines.findIndex((one) => at !== null && one.label === at.series);
    if (!at || line < 0) return this.point(lines[0].points[0]);
    const { points } = lines[(line + across + lines.length) % lines.length];
    const near = across ? nearestAlong(points, at.x) : points.indexOf(at) + along;
    this.point(points[Math.min(points.length - 1, Math.max(0, near))]);
  }

  /** One row of places for all series: uPlot's form. */
  data() {
    const { series } = /** @type {Scene} */ (this.scene);
    const all = series.flatMap((one, place) => one.points.filter(this.fits, this).map((point) => ({ point, place })));
    all.sort((a, b) => a.point.x - b.point.x);
    const columns = series.map((_, place) => all.map((one) => (one.place === place ? one.point.y : null)));
    return /** @type {uPlot.AlignedData} */ ([all.map((one) => one.point.x), ...columns]);
  }

  /** A logarithmic scale has no place for 0 and less.
   * @param {Point} point */
  fits(point) {
    return (!this.shape.xlog || point.x > 0) && (!this.shape.ylog || point.y > 0);
  }

  /** @returns {uPlot.Options} */
  options() {
    const { series, words, choice } = /** @type {Scene} */ (this.scene);
    const colour = this.colour("faint");
    const grid = { stroke: this.colour("line"), width: 1 };
    const common = { stroke: colour, grid, ticks: grid, font: FONT, labelFont: FONT };
    const labels = words && choice.x === "kernel" ? 0 : roomFor(series, this.host.clientWidth);
    const room = this.host.clientWidth - labels - 100;
    const slanted = words !== null && meet(words, room, LETTER);
    const [told, unit] = axisOf(choice, choice.y, this.shape.y[1]);
    const longest = Math.min(LONGEST_WORD, Math.max(0, ...(words ?? []).map((one) => one.length)));
    return {
      width: Math.max(200, this.host.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      padding: [null, labels || null, null, null],
      cursor: { points: { show: false }, drag: { x: true, y: true, uni: 10, setScale: false }, x: false, y: false },
      scales: {
        x: { time: false, distr: this.shape.xlog ? 3 : 1, log: 2, range: () => this.zoom?.x ?? this.shape.x },
        y: { distr: this.shape.ylog ? 3 : 1, log: 10, range: () => this.zoom?.y ?? this.shape.y },
      },
      axes: [
        {
          ...common,
          label: axisOf(choice, choice.x, 0)[0],
          ...(slanted ? { rotate: 40, size: 30 + longest * 4.4 } : {}),
          ...ticks(this.shape.xlog, SIZES.includes(choice.x) ? 2 : 10, words),
        },
        { ...common, label: told, size: 68, ...ticks(this.shape.ylog, 10, null, unit) },
      ],
      series: [{}, ...series.map((one) => this.seriesOptions(one.label))],
      hooks: {
        drawAxes: [() => this.drawGround()],
        draw: [() => this.drawMarks()],
        setSelect: [() => this.select()],
      },
    };
  }

  /** @param {string} label @returns {uPlot.Series} */
  seriesOptions(label) {
    const scene = /** @type {Scene} */ (this.scene);
    const [hue, dash] = styleOf(scene, label);
    const one = scene.series.find((each) => each.label === label);
    const own = one?.own ?? true;
    const isLine = (one?.joined ?? true) && (scene.choice.configs === "fastest" || scene.words !== null);
    return {
      label,
      show: !scene.hidden.has(label),
      stroke: this.colour(hue),
      width: isLine ? (own ? 2 : 1) : 0,
      dash: dash ? dash.split(" ").map((part) => 2 * Number(part)) : undefined,
      spanGaps: true,
      points: { show: false },
    };
  }

  /** @param {string} name of a colour of style.css */
  colour(name) {
    return getComputedStyle(this.host).getPropertyValue(`--${name}`).trim();
  }

  /** What was dragged over becomes all there is. */
  select() {
    const plot = this.plot;
    if (!plot || plot.select.width < 4 || plot.select.height < 4) return;
    const { left, top, width, height } = plot.select;
    const x = /** @type {Span} */ ([plot.posToVal(left, "x"), plot.posToVal(left + width, "x")]);
    const y = /** @type {Span} */ ([plot.posToVal(top + height, "y"), plot.posToVal(top, "y")]);
    plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    this.setZoom({ x, y });
  }

  /** Draws within the frame.
   * @param {(ctx: CanvasRenderingContext2D, plot: uPlot) => void} draw */
  inside(draw) {
    const plot = this.plot;
    if (!plot) return;
    const { ctx, bbox } = plot;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    draw(ctx, plot);
    ctx.restore();
  }

  /** Bands and ceilings, below the lines. */
  drawGround() {
    const scene = /** @type {Scene} */ (this.scene);
    this.inside((ctx, plot) => {
      for (const one of scene.series.filter((each) => !scene.hidden.has(each.label))) {
        const known = one.points.filter((point) => this.fits(point) && point.lo !== null && point.hi !== null);
        ctx.strokeStyle = ctx.fillStyle = this.colour(styleOf(scene, one.label)[0]);
        band(ctx, plot, known, one.joined && (scene.choice.configs === "fastest" || scene.words !== null));
      }
      ctx.globalAlpha = 1;
      ctx.strokeStyle = ctx.fillStyle = this.colour("faint");
      ceilings(ctx, plot, nearPeaks(scene, this.shape.y));
    });
  }

  drawMarks() {
    const scene = /** @type {Scene} */ (this.scene);
    const ground = this.colour("ground");
    this.inside((ctx, plot) => {
      for (const one of scene.series.filter((each) => !scene.hidden.has(each.label))) {
        const [hue, , outline] = styleOf(scene, one.label);
        const [full, hollow] = [this.colour(hue), ground].map((fill) => stamp(outline, MARK, this.colour(hue), fill));
        for (const point of one.points.filter(this.fits, this)) {
          const mark = one.own && !isDisturbed(point.row) ? full : hollow;
          const [x, y] = [plot.valToPos(point.x, "x", true), plot.valToPos(point.y, "y", true)];
          ctx.drawImage(mark, Math.round(x) - mark.width / 2, Math.round(y) - mark.height / 2);
        }
      }
      ctx.fillStyle = this.colour("faint");
      ceilingWords(ctx, plot, nearPeaks(scene, this.shape.y), ground);
    });
    drawLabels(this, scene);
  }
}

/** @param {Scene} scene @param {string} label @returns {Style} */
function styleOf(scene, label) {
  return scene.styles.get(label) ?? ["ink", "", ""];
}
