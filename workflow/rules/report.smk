rule compare:
    input:
        expand("data/{study}/analysis.json", study=STUDIES),
    output:
        "reports/metrics.json",
    params:
        studies=STUDIES,
    log:
        "logs/compare.log",
    shell:
        "onelayer compare {params.studies} 2>&1 | tee {log}"


rule report:
    input:
        analyses=expand("data/{study}/analysis.json", study=STUDIES),
        metrics="reports/metrics.json",
    output:
        "reports/report.html",
    params:
        studies=STUDIES,
        options=PARAMS.report.model_dump(mode="json"),
    log:
        "logs/report.log",
    shell:
        "onelayer report {params.studies} 2>&1 | tee {log}"
