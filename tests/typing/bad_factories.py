"""Calls of factories that type checkers must refuse, and no others."""

import optax

import canonopt
from canonopt.contrib import moun  # noqa: F401  # error: "moun" is unknown import symbol

schedule = canonopt.constant_schedule(1.0)
optim = canonopt.adam(1e-3)

# --- a name there is not ---

canonopt.adm(1e-3)  # error: is not a known attribute
canonopt.optimizers.adm(1e-3)  # error: "adm" is not a known attribute
canonopt.transforms.adam(1e-3)  # error: "adam" is not a known attribute
canonopt.muon(0.02)  # error: is not a known attribute

# --- a parameter there is not ---

canonopt.adam(lr=1e-3, beta1=0.9)  # error: reportCallIssue
canonopt.adam(1e-3, beta1=0.9)  # error: reportCallIssue
canonopt.adam(learning_rte=1e-3)  # error: reportCallIssue
canonopt.sgd(lr=0.1, momentun=0.9)  # error: reportCallIssue
canonopt.contrib.muon(lr=0.1, nesterow=True)  # error: reportCallIssue
canonopt.clip(maximum=1.0)  # error: No parameter named "maximum"
canonopt.clip(lr=1.0)  # error: No parameter named "lr"
canonopt.MultiSteps(optim, 4, use_mean=True)  # error: No parameter named "use_mean"
canonopt.linear_schedule(1.0, 0.0, steps=10)  # error: No parameter named "steps"

# --- one too many, or too few ---

canonopt.adam(lr=1, learning_rate=1)  # error: reportCallIssue
canonopt.adam(1e-3, lr=1e-3)  # error: reportCallIssue
canonopt.adam()  # error: reportCallIssue
canonopt.adamw(weight_decay=0.1)  # error: reportCallIssue
canonopt.sign_sgd(0.1, 0.9)  # error: reportCallIssue
canonopt.adam(1e-3, 0.9, 0.999, 1e-8, 0.0, None, True)  # error: reportCallIssue
canonopt.contrib.dpsgd(lr=0.1)  # error: reportCallIssue
canonopt.contrib.schedule_free(lr=0.1)  # error: reportCallIssue
canonopt.cosine_decay_schedule(1.0)  # error: Argument missing for parameter "decay_steps"

# --- a value of another kind ---

canonopt.adam("1e-3")  # error: "Literal['1e-3']"
canonopt.adam(lr=None)  # error: "None"
canonopt.adam(lr=1e-3, b1=schedule)  # error: "ScheduleSpec"
canonopt.adam(lr=optim)  # error: "Spec"
canonopt.sgd(0.1, nesterov="yes")  # error: "Literal['yes']"
canonopt.contrib.muon(0.1, preconditioning="spectrum")  # error: "Literal['spectrum']"
canonopt.linear_schedule(1.0, 0.0, 0.5)  # error: "float"

# --- something else for a transformation ---

canonopt.chain([optim, optim])  # error: "list[Spec]"
canonopt.chain(canonopt.adam)  # error: reportArgumentType
canonopt.chain(optax.adam)  # error: reportArgumentType
canonopt.chain(optim, schedule)  # error: "ScheduleSpec"
canonopt.named_chain(optim)  # error: reportArgumentType
canonopt.named_chain((optim, "adam"))  # error: reportArgumentType
canonopt.partition([optim], lambda params: 0)  # error: "list[Spec]"
canonopt.masked(mask=True)  # error: Argument missing for parameter "inner"
canonopt.MultiSteps(1e-3, 4)  # error: "float"
canonopt.inject_hyperparams(optim)  # error: "Spec"
canonopt.inject_hyperparams(canonopt.linear_schedule)  # error: reportArgumentType
