// What an operator may do to a candidate, and the dialog that asks before it is done.

const ACTIONS = {
  open: {
    path: (id) => `circuits/${id}/open`, done: "opened the circuit of", verb: "Open the circuit", danger: true, leavesNone: true,
    text: "New requests go to the next candidate at once. It stays open until a hand closes it; running streams go on.",
    fits: (candidate) => candidate.circuit && !candidate.circuit.by_hand,
  },
  close: {
    path: (id) => `circuits/${id}/close`, done: "closed the circuit of", verb: "Close the circuit", danger: false,
    text: "Requests are let through again, all of them at once. What the circuit had learnt is forgotten.",
    fits: (candidate) => candidate.circuit && (candidate.circuit.by_hand || candidate.circuit.state !== "closed"),
  },
  reset: {
    path: (id) => `circuits/${id}/reset`, done: "reset the circuit of", verb: "Reset the circuit", danger: false,
    text: "Closed, with no samples and no memory of failures. What is under way counts for nothing.",
    fits: (candidate) => candidate.circuit,
  },
  drain: {
    path: (id) => `candidates/${id}/drain`, done: "drained", verb: "Drain the candidate", danger: true, leavesNone: true,
    text: "No new attempt goes to it, whatever its circuit says. Running streams end by themselves.",
    fits: (candidate) => !candidate.drained,
  },
  undrain: {
    path: (id) => `candidates/${id}/undrain`, done: "put back into service:", verb: "Take requests again", danger: false,
    text: "The candidate is asked again in its turn, as its circuit allows.",
    fits: (candidate) => candidate.drained,
  },
};

/** Shows the dialog for a candidate. `ask(path)` resolves to what went wrong, or to nothing; `done(text)` says what was done. */
const actions = {
  target: null,

  open(status, modelName, id, ask, done) {
    const model = status.models.find((each) => each.name === modelName);
    const candidate = model?.candidates.find((each) => each.id === id);
    if (!candidate) return;
    this.target = { status, candidate, ask, done };
    put($("act-title"), candidate.name);
    const { text, sub } = standing(candidate, 0);
    put($("act-state"), sub ? `${text}: ${sub}` : text);
    put($("act-error"), "");
    const fitting = Object.entries(ACTIONS).filter(([, action]) => action.fits(candidate));
    const choices = fitting.map(([name, action]) => {
      const label = Object.assign(document.createElement("label"), { className: "choice" });
      const input = Object.assign(document.createElement("input"), { type: "radio", name: "action", value: name, required: true });
      const verb = document.createElement("b");
      verb.textContent = action.verb;
      const text = document.createElement("span");
      text.textContent = action.text;
      text.id = `act-text-${name}`;
      input.setAttribute("aria-describedby", text.id);
      label.append(input, verb, text);
      return label;
    });
    $("act-choices").replaceChildren($("act-choices").firstElementChild, ...choices);
    this.choose();
    $("act").showModal();
  },

  chosen() {
    return $("act-choices").querySelector("input:checked")?.value;
  },

  choose() {
    const name = this.chosen();
    const confirm = $("act-confirm");
    confirm.disabled = !name;
    put(confirm, name ? ACTIONS[name].verb : "Choose what to do");
    confirm.classList.toggle("danger", Boolean(name && ACTIONS[name].danger));
    const left = name && ACTIONS[name].leavesNone ? this.leftAlone() : [];
    $("act-warning").hidden = !left.length;
    put($("act-warning"), left.length ? `Nobody else takes requests for ${list(left)}: they will fail.` : "");
  },

  /** The models that would have no candidate left. */
  leftAlone() {
    const { status, candidate } = this.target;
    const others = (model) => model.candidates.filter((each) => each.name !== candidate.name);
    const uses = (model) => model.candidates.length > others(model).length;
    return status.models.filter((model) => uses(model) && !others(model).some(isAvailable)).map((model) => model.name);
  },

  async confirm() {
    const name = this.chosen();
    if (!name) return;
    const { candidate, ask, done } = this.target;
    $("act-confirm").disabled = true;
    const wrong = await ask(ACTIONS[name].path(encodeURIComponent(candidate.id)));
    $("act-confirm").disabled = false;
    if (wrong) {
      put($("act-error"), wrong);
      return;
    }
    $("act").close();
    done(`Done: ${ACTIONS[name].done} ${candidate.name}`);
  },
};
