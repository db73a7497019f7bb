rule base:
    output:
        "data/{study}/jobs/base.trained.json",
    log:
        "logs/{study}/base.log",
    threads: lambda wildcards: study(wildcards.study).resources.base_threads
    resources:
        **asked("base"),
    params:
        settings=lambda wildcards: fingerprint.digest(
            fingerprint.base_settings(study(wildcards.study))
        ),
    shell:
        "onelayer base {wildcards.study} 2>&1 | keep_log {log}"


rule choose_rate:
    input:
        lambda wildcards: receipts(
            wildcards,
            "evaluated",
            lambda run: run.kind == "search" and run.family is None,
        ),
    output:
        "data/{study}/learning_rate.json",
    log:
        "logs/{study}/choose_rate.log",
    params:
        rates=lambda wildcards: list(study(wildcards.study).training.learning_rates),
    shell:
        "onelayer choose-rate {wildcards.study} 2>&1 | tee {log}"


rule choose_baseline_rate:
    input:
        lambda wildcards: receipts(
            wildcards,
            "evaluated",
            lambda run: run.kind == "search" and run.family == wildcards.baseline,
        ),
    output:
        "data/{study}/rates/{baseline}.json",
    log:
        "logs/{study}/choose_rate.{baseline}.log",
    params:
        rates=lambda wildcards: list(
            grid.find_family(study(wildcards.study), wildcards.baseline).rates
        ),
    shell:
        "onelayer choose-rate {wildcards.study} --baseline {wildcards.baseline} 2>&1 | tee {log}"


rule rank_layers:
    input:
        lambda wildcards: receipts(
            wildcards, "evaluated", lambda run: run.kind == "layer"
        ),
    output:
        "data/{study}/ranking.json",
    log:
        "logs/{study}/rank.log",
    shell:
        "onelayer rank {wildcards.study} 2>&1 | tee {log}"


def training_input(wildcards):
    files = {
        "problems": f"data/{wildcards.study}/problems.json",
        "base": f"data/{wildcards.study}/jobs/base.trained.json",
    }
    run = job_runs(wildcards)[0]
    if run.kind != "search":
        files["rate"] = str(learning_rate_file(wildcards.study, run.family))
    if run.ranked is not None:
        files["ranking"] = f"data/{wildcards.study}/ranking.json"
    return files


rule train:
    input:
        unpack(training_input),
    output:
        "data/{study}/jobs/{job}.trained.json",
    log:
        "logs/{study}/{job}.trained.log",
    group:
        together
    threads: lambda wildcards: study(wildcards.study).resources.training_threads
    resources:
        **asked("train"),
    params:
        settings=lambda wildcards: [
            fingerprint.digest(
                fingerprint.training_settings(study(wildcards.study), run)
            )
            for run in job_runs(wildcards)
        ],
    shell:
        "onelayer train {wildcards.study} --job {wildcards.job} 2>&1 | keep_log {log}"


ruleorder: base > train
