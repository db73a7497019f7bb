rule evaluate:
    input:
        problems="data/{study}/problems.json",
        base="data/{study}/jobs/base.trained.json",
        trained="data/{study}/jobs/{job}.trained.json",
    output:
        "data/{study}/jobs/{job}.evaluated.json",
    log:
        "logs/{study}/{job}.evaluated.log",
    group:
        together
    threads: lambda wildcards: study(wildcards.study).resources.threads
    resources:
        **asked("evaluate"),
    params:
        settings=lambda wildcards: [
            fingerprint.digest(
                fingerprint.evaluation_settings(study(wildcards.study), run)
            )
            for run in job_runs(wildcards)
        ],
    shell:
        "onelayer evaluate {wildcards.study} --job {wildcards.job} 2>&1 | tee {log}"
