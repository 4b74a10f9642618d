// Figures as text. An unknown one is null.

export const NOTHING = "–";

export const whole = (value) => (value === null ? NOTHING : String(Math.round(value)));
export const decimal = (value) =>
  value === null ? NOTHING : value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
export const percent = (value) => (value === null ? NOTHING : `${Math.round(100 * value)} %`);
export const fraction = (value) => (value === null ? NOTHING : value.toFixed(2));
export const millis = (value) =>
  value === null ? NOTHING : value >= 1000 ? `${decimal(value / 1000)} s` : `${decimal(value)} ms`;
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
