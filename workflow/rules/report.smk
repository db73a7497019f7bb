rule compare:
    input:
        expand("data/{study}/analysis.json", study=STUDIES),
    output:
        "reports/metrics.json",
    log:
        "logs/compare.log",
    params:
        studies=STUDIES,
    shell:
        "onelayer compare {params.studies} 2>&1 | tee {log}"


rule report:
    input:
        analyses=expand("data/{study}/analysis.json", study=STUDIES),
        metrics="reports/metrics.json",
    output:
        "reports/report.html",
    log:
        "logs/report.log",
    params:
        studies=STUDIES,
        options=PARAMS.report.model_dump(mode="json"),
    shell:
        "onelayer report {params.studies} 2>&1 | tee {log}"
