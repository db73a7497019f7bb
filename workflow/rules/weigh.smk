# How far each run moved the weights. It takes no GPU, so it is a job apart from training.
rule weigh:
    input:
        base="data/{study}/jobs/base.trained.json",
        trained="data/{study}/jobs/{job}.trained.json",
    output:
        "data/{study}/jobs/{job}.weighed.json",
    log:
        "logs/{study}/{job}.weighed.log",
    group:
        together
    threads: lambda wildcards: study(wildcards.study).resources.threads
    resources:
        **asked("weigh"),
    params:
        recipe=fingerprint.WEIGH_RECIPE,
    shell:
        "onelayer weigh {wildcards.study} --job {wildcards.job} 2>&1 | tee {log}"
