# The evaluation suite, for studies that name one. Its records depend on the rows of local files too.
rule suite:
    input:
        rows=lambda wildcards: local_rows(study(wildcards.study)),
        base="data/{study}/jobs/base.trained.json",
        trained="data/{study}/jobs/{job}.trained.json",
    output:
        "data/{study}/jobs/{job}.suite.json",
    log:
        "logs/{study}/{job}.suite.log",
    group:
        together
    threads: lambda wildcards: study(wildcards.study).resources.threads
    resources:
        **asked("suite"),
    params:
        settings=lambda wildcards: [
            fingerprint.digest(
                fingerprint.suite_settings(study(wildcards.study), run, benchmark)
            )
            for run in job_runs(wildcards)
            for benchmark in study(wildcards.study).suite
        ],
    shell:
        "onelayer suite {wildcards.study} --job {wildcards.job} 2>&1 | tee {log}"
