rule analyze:
    input:
        rate="data/{study}/learning_rate.json",
        records=lambda wildcards: receipts(
            wildcards, "evaluated", {"base", "search", "full", "layer"}
        ),
    output:
        "data/{study}/analysis.json",
    log:
        "logs/{study}/analyze.log",
    params:
        settings=lambda wildcards: study(wildcards.study).analysis.model_dump(
            mode="json"
        ),
    shell:
        "onelayer analyze {wildcards.study} 2>&1 | tee {log}"
