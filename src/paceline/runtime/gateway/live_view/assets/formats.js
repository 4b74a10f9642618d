// Figures as text. An unknown one is null.

export const NOTHING = "–";

export const whole = (value) => (value === null ? NOTHING : String(Math.round(value)));
export const decimal = (value) =>
  value === null ? NOTHING : value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
export const percent = (value) => (value === null ? NOTHING : `${Math.round(100 * value)} %`);
export const fraction = (value) => (value === null ? NOTHING : value.toFixed(2));
export const millis = (value) =>
  value === null ? NOTHING : value >= 1000 ? `${decimal(value / 1000)} s` : `${decimal(value)} ms`;
/** The name of a model: of a folder its own, of a snapshot in the cache of Hugging Face its repository. */
export const modelName = (model) => {
  const cached = /[/\\]models--([^/\\]+?)--([^/\\]+)[/\\]snapshots[/\\]/.exec(model);
  if (cached) return `${cached[1]}/${cached[2]}`;
  const isPath = /^([/~.\\]|[A-Za-z]:[/\\])/.test(model);
  return (isPath && model.split(/[/\\]/).filter(Boolean).pop()) || model;
};
export const clock = (seconds) => new Date(seconds * 1000).toLocaleTimeString([], { hour12: false });
