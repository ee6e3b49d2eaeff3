BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0001');
CREATE TABLE api_token (
	id VARCHAR(36) NOT NULL, 
	subject VARCHAR(250) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	token_hash VARCHAR(64) NOT NULL, 
	created_at DATETIME NOT NULL, 
	revoked_at DATETIME, 
	CONSTRAINT pk_api_token PRIMARY KEY (id), 
	CONSTRAINT uq_api_token_token_hash UNIQUE (token_hash)
);
CREATE TABLE asset (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR(1500) NOT NULL, 
	uri VARCHAR(1500) NOT NULL, 
	"group" VARCHAR(1500) DEFAULT ('') NOT NULL, 
	extra TEXT DEFAULT '{}' NOT NULL, 
	origin VARCHAR(8) NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	expect_every_seconds INTEGER, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	CONSTRAINT uq_asset_name UNIQUE (name), 
	CONSTRAINT uq_asset_uri UNIQUE (uri)
);
INSERT INTO "asset" VALUES(1,'inbox','inbox','asset','{}','yaml',1,NULL,'2026-11-22 14:40:39.637000','2026-11-22 14:40:39.637000');
INSERT INTO "asset" VALUES(2,'numbers','numbers','asset','{}','yaml',1,NULL,'2026-11-22 14:40:39.638000','2026-11-22 14:40:39.638000');
INSERT INTO "asset" VALUES(3,'loaded','loaded','asset','{}','yaml',1,NULL,'2026-11-22 14:40:39.639000','2026-11-22 14:40:39.639000');
INSERT INTO "asset" VALUES(4,'slow','slow','asset','{}','yaml',1,NULL,'2026-11-22 14:40:39.640000','2026-11-22 14:40:39.640000');
INSERT INTO "asset" VALUES(5,'all','all','asset','{}','yaml',1,NULL,'2026-11-22 14:40:39.641000','2026-11-22 14:40:39.641000');
CREATE TABLE asset_alias (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR(250) NOT NULL, 
	"group" VARCHAR(1500) DEFAULT ('') NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	CONSTRAINT uq_asset_alias_name UNIQUE (name)
);
CREATE TABLE asset_alias_asset (
	alias_id INTEGER NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_asset_alias_asset PRIMARY KEY (alias_id, asset_id), 
	CONSTRAINT fk_asset_alias_asset_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_asset_alias_asset_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id) ON DELETE CASCADE
);
CREATE TABLE asset_alias_event (
	alias_id INTEGER NOT NULL, 
	event_id INTEGER NOT NULL, 
	CONSTRAINT pk_asset_alias_event PRIMARY KEY (alias_id, event_id), 
	CONSTRAINT fk_asset_alias_event_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_asset_alias_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id) ON DELETE CASCADE
);
CREATE TABLE asset_event (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	asset_id INTEGER NOT NULL, 
	extra TEXT DEFAULT '{}' NOT NULL, 
	timestamp DATETIME NOT NULL, 
	event_id VARCHAR(64), 
	trace_id VARCHAR(32) NOT NULL, 
	source_dag_id VARCHAR(250), 
	source_run_id VARCHAR(250), 
	source_task_id VARCHAR(250), 
	source_map_index INTEGER DEFAULT '-1' NOT NULL, 
	source_watcher VARCHAR(250), 
	source_actor VARCHAR(250), 
	CONSTRAINT fk_asset_event_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT uq_asset_event_event_id UNIQUE (event_id)
);
INSERT INTO "asset_event" VALUES(1,1,'{"watcher": "inbox_files", "event_id": "9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59", "count": 1, "watermark": {"from": "2026-11-22T14:40:41.977386Z", "to": "2026-11-22T14:40:42.324459Z"}, "files": [{"path": "/the/folder/inbox/a.csv", "size": 5, "last_modified": "2026-11-22T14:40:42.028025Z"}]}','2026-11-22 14:40:42.354000','9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59','1bdc6ae18a094d4b80867156a40a0e8e',NULL,NULL,NULL,-1,'inbox_files',NULL);
INSERT INTO "asset_event" VALUES(2,3,'{}','2026-11-22 14:40:44.063000',NULL,'9e671fd479cb4d4ea4f1fe8200d3bd8c','load','asset_triggered__2026-11-22T14:40:42.418000+00:00_0','load',-1,NULL,NULL);
INSERT INTO "asset_event" VALUES(3,1,'{"watcher": "inbox_files", "event_id": "c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc", "count": 1, "watermark": {"from": "2026-11-22T14:40:44.090409Z", "to": "2026-11-22T14:40:44.306972Z"}, "files": [{"path": "/the/folder/inbox/b.csv", "size": 5, "last_modified": "2026-11-22T14:40:44.171568Z"}]}','2026-11-22 14:40:44.343000','c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc','38e8f1231db442b68645d52a0674bf7a',NULL,NULL,NULL,-1,'inbox_files',NULL);
INSERT INTO "asset_event" VALUES(4,3,'{}','2026-11-22 14:40:46.315000',NULL,'24331ff839ba4692b58731987af48a46','load','asset_triggered__2026-11-22T14:40:44.434000+00:00_0','load',-1,NULL,NULL);
INSERT INTO "asset_event" VALUES(5,2,'{"watcher": "number_files", "event_id": "4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2", "count": 1, "watermark": {"from": "2026-11-22T14:40:46.272272Z", "to": "2026-11-22T14:40:46.508072Z"}, "files": [{"path": "/the/folder/numbers/one.csv", "size": 7, "last_modified": "2026-11-22T14:40:46.425129Z"}]}','2026-11-22 14:40:46.547000','4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2','fc01185dc68b4fd2b33e8e785d1b2aaa',NULL,NULL,NULL,-1,'number_files',NULL);
CREATE TABLE asset_store (
	asset_id INTEGER NOT NULL, 
	"key" VARCHAR(512) NOT NULL, 
	value TEXT NOT NULL, 
	is_ref BOOLEAN DEFAULT 0 NOT NULL, 
	version BIGINT NOT NULL, 
	updated_at DATETIME NOT NULL, 
	last_updated_by_kind VARCHAR(16), 
	last_updated_by_dag_id VARCHAR(250), 
	last_updated_by_run_id VARCHAR(250), 
	last_updated_by_task_id VARCHAR(250), 
	last_updated_by_map_index INTEGER, 
	last_updated_by_watcher VARCHAR(250), 
	last_updated_by_actor VARCHAR(250), 
	last_updated_by_write_id VARCHAR(64), 
	CONSTRAINT pk_asset_store PRIMARY KEY (asset_id, "key"), 
	CONSTRAINT fk_asset_store_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "asset_store" VALUES(1,'inbox_files.watermark','{"up_to": "2026-11-22T14:40:44.306972Z", "horizon": null, "seen": 2, "scan": null}',0,3,'2026-11-22 14:40:44.345000','watcher',NULL,NULL,NULL,NULL,'inbox_files',NULL,'1176a41d7b48419f9f722caab769eadd');
INSERT INTO "asset_store" VALUES(2,'number_files.watermark','{"up_to": "2026-11-22T14:40:46.508072Z", "horizon": null, "seen": 1, "scan": null}',0,2,'2026-11-22 14:40:46.554000','watcher',NULL,NULL,NULL,NULL,'number_files',NULL,'74b4791717504cdeb1f5e8b7e6f0d8cc');
INSERT INTO "asset_store" VALUES(3,'asset_triggered__2026-11-22T14:40:42.418000+00:00_0','["a.csv"]',0,1,'2026-11-22 14:40:43.968000','task','load','asset_triggered__2026-11-22T14:40:42.418000+00:00_0','load',-1,NULL,NULL,'dda29d9054394663ad43ecc9a55a537b');
INSERT INTO "asset_store" VALUES(3,'asset_triggered__2026-11-22T14:40:44.434000+00:00_0','["b.csv"]',0,1,'2026-11-22 14:40:46.194000','task','load','asset_triggered__2026-11-22T14:40:44.434000+00:00_0','load',-1,NULL,NULL,'253e20ee23ae4ca0ae2a8c2bd62619ff');
INSERT INTO "asset_store" VALUES(4,'began','"asset_triggered__2026-11-22T14:40:46.587000+00:00_0"',0,1,'2026-11-22 14:40:48.656000','task','slow','asset_triggered__2026-11-22T14:40:46.587000+00:00_0','slow',-1,NULL,NULL,'ed4d18a2931a4da9a999307d70a5a71f');
CREATE TABLE asset_store_history (
	asset_id INTEGER NOT NULL, 
	"key" VARCHAR(512) NOT NULL, 
	version BIGINT NOT NULL, 
	value TEXT, 
	is_ref BOOLEAN DEFAULT 0 NOT NULL, 
	deleted BOOLEAN DEFAULT 0 NOT NULL, 
	written_at DATETIME NOT NULL, 
	kind VARCHAR(16), 
	dag_id VARCHAR(250), 
	run_id VARCHAR(250), 
	task_id VARCHAR(250), 
	map_index INTEGER, 
	try_number INTEGER, 
	watcher VARCHAR(250), 
	actor VARCHAR(250), 
	write_id VARCHAR(64), 
	CONSTRAINT pk_asset_store_history PRIMARY KEY (asset_id, "key", version), 
	CONSTRAINT fk_asset_store_history_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',1,'{"up_to": "2026-11-22T14:40:41.977386Z", "horizon": null, "seen": 0, "scan": null}',0,0,'2026-11-22 14:40:42.066000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'53df04755466406e8b66c1859f516c8e');
INSERT INTO "asset_store_history" VALUES(2,'number_files.watermark',1,'{"up_to": "2026-11-22T14:40:42.035582Z", "horizon": null, "seen": 0, "scan": null}',0,0,'2026-11-22 14:40:42.103000','watcher',NULL,NULL,NULL,NULL,NULL,'number_files',NULL,'41ed394604ad4b9096e9997104ec4fd1');
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',2,'{"up_to": "2026-11-22T14:40:42.324459Z", "horizon": null, "seen": 1, "scan": null}',0,0,'2026-11-22 14:40:42.377000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'caa98a6a5fbd4b09b3f53bd0f945a4b7');
INSERT INTO "asset_store_history" VALUES(3,'asset_triggered__2026-11-22T14:40:42.418000+00:00_0',1,'["a.csv"]',0,0,'2026-11-22 14:40:43.969000','task','load','asset_triggered__2026-11-22T14:40:42.418000+00:00_0','load',-1,1,NULL,NULL,'dda29d9054394663ad43ecc9a55a537b');
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',3,'{"up_to": "2026-11-22T14:40:44.306972Z", "horizon": null, "seen": 2, "scan": null}',0,0,'2026-11-22 14:40:44.346000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'1176a41d7b48419f9f722caab769eadd');
INSERT INTO "asset_store_history" VALUES(3,'asset_triggered__2026-11-22T14:40:44.434000+00:00_0',1,'["b.csv"]',0,0,'2026-11-22 14:40:46.200000','task','load','asset_triggered__2026-11-22T14:40:44.434000+00:00_0','load',-1,1,NULL,NULL,'253e20ee23ae4ca0ae2a8c2bd62619ff');
INSERT INTO "asset_store_history" VALUES(2,'number_files.watermark',2,'{"up_to": "2026-11-22T14:40:46.508072Z", "horizon": null, "seen": 1, "scan": null}',0,0,'2026-11-22 14:40:46.558000','watcher',NULL,NULL,NULL,NULL,NULL,'number_files',NULL,'74b4791717504cdeb1f5e8b7e6f0d8cc');
INSERT INTO "asset_store_history" VALUES(4,'began',1,'"asset_triggered__2026-11-22T14:40:46.587000+00:00_0"',0,0,'2026-11-22 14:40:48.656000','task','slow','asset_triggered__2026-11-22T14:40:46.587000+00:00_0','slow',-1,1,NULL,NULL,'ed4d18a2931a4da9a999307d70a5a71f');
CREATE TABLE asset_store_increment (
	task_instance_id VARCHAR(36) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	ordinal INTEGER NOT NULL, 
	CONSTRAINT pk_asset_store_increment PRIMARY KEY (task_instance_id, asset_id, ordinal), 
	CONSTRAINT fk_asset_store_increment_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_asset_store_increment_task_instance_id FOREIGN KEY(task_instance_id) REFERENCES task_instance (id) ON DELETE CASCADE
);
CREATE TABLE audit (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	at DATETIME NOT NULL, 
	actor VARCHAR(250) NOT NULL, 
	action VARCHAR(64) NOT NULL, 
	target VARCHAR(2000) NOT NULL, 
	detail TEXT DEFAULT '{}' NOT NULL, 
	write_id VARCHAR(64)
);
INSERT INTO "audit" VALUES(1,'2026-11-22 14:40:42.001000','anonymous','job.pause','held','{}','4a3add715a314bb0bb6cec067f65f3c0');
CREATE TABLE dispatcher (
	home_id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	pid INTEGER NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, 
	CONSTRAINT pk_dispatcher PRIMARY KEY (home_id)
);
INSERT INTO "dispatcher" VALUES('5c782f93-73e7-43b9-a03f-0f5ff7669b26','vm',22704,'2026-11-22 14:40:48.577000','2026-11-22 14:40:53.577000');
CREATE TABLE execution_answer (
	task_instance_id VARCHAR(36) NOT NULL, 
	"key" VARCHAR(255) NOT NULL, 
	request VARCHAR(64) NOT NULL, 
	status INTEGER NOT NULL, 
	body TEXT, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_execution_answer PRIMARY KEY (task_instance_id, "key")
);
INSERT INTO "execution_answer" VALUES('1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c','ab2b5b1a892d424b83cdacc26025cb6f','ee5c572939293ddf48db32bf8217dd9d04d63dbd075f6cd83b79fa19b9ecb510',200,'{"dag_id":"load","run_id":"asset_triggered__2026-11-22T14:40:42.418000+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c","triggering_asset_events":{"inbox":[{"id":1,"timestamp":"2026-11-22T14:40:42.354000Z","extra":{"watcher":"inbox_files","event_id":"9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59","count":1,"watermark":{"from":"2026-11-22T14:40:41.977386Z","to":"2026-11-22T14:40:42.324459Z"},"files":[{"path":"/the/folder/inbox/a.csv","size":5,"last_modified":"2026-11-22T14:40:42.028025Z"}]},"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"created_dagruns":[],"source_task_id":null,"source_dag_id":null,"source_run_id":null,"source_map_index":-1,"source_watcher":"inbox_files","partition_key":null,"source_dag_run":null,"source_task_instance":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-22 14:40:43.926000');
INSERT INTO "execution_answer" VALUES('1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c','bcdc3f419b5143e5a1f2fd08d4b41327','8832df23438840dc17d38629833bb50d006b4f6b353de0ebd0005598f2ab96de',204,NULL,'2026-11-22 14:40:43.967000');
INSERT INTO "execution_answer" VALUES('1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c','0eac95ae00ca42dab96e02e5b20c9e33','a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1',200,'{}','2026-11-22 14:40:43.985000');
INSERT INTO "execution_answer" VALUES('a1f3927f-195a-42e5-bad3-16bbd6f7a070','4c947b76a10242ebadea36e59ff5ca8b','d8f1a19bf5d64f8be8ddd64242f1065969223a0d05cdc91eaf230614c982674d',200,'{"dag_id":"load","run_id":"asset_triggered__2026-11-22T14:40:44.434000+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"a1f3927f-195a-42e5-bad3-16bbd6f7a070","triggering_asset_events":{"inbox":[{"id":3,"timestamp":"2026-11-22T14:40:44.343000Z","extra":{"watcher":"inbox_files","event_id":"c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc","count":1,"watermark":{"from":"2026-11-22T14:40:44.090409Z","to":"2026-11-22T14:40:44.306972Z"},"files":[{"path":"/the/folder/inbox/b.csv","size":5,"last_modified":"2026-11-22T14:40:44.171568Z"}]},"asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"created_dagruns":[],"source_task_id":null,"source_dag_id":null,"source_run_id":null,"source_map_index":-1,"source_watcher":"inbox_files","partition_key":null,"source_dag_run":null,"source_task_instance":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-22 14:40:46.088000');
INSERT INTO "execution_answer" VALUES('a1f3927f-195a-42e5-bad3-16bbd6f7a070','d6ebe8872473494f886f12312bb095ae','d53dabb1f863cda24a02922e477859a6e64b515fbe5a0ba9d1f1785e255ccfa0',204,NULL,'2026-11-22 14:40:46.189000');
INSERT INTO "execution_answer" VALUES('a1f3927f-195a-42e5-bad3-16bbd6f7a070','324551a8d2d94a1b9ccd2a80b2c8e9d5','a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1',200,'{}','2026-11-22 14:40:46.242000');
INSERT INTO "execution_answer" VALUES('271374db-2022-44c9-b02c-12354d187aba','914f5d33b6824acca5f38f9bc248fdc5','39822fda2cada0de91ab063e7039aa6a4534bb42c2206324f301da894a5a332f',200,'{"dag_id":"slow","run_id":"asset_triggered__2026-11-22T14:40:46.587000+00:00_0","task_id":"slow","map_index":-1,"try_number":1,"task_instance_id":"271374db-2022-44c9-b02c-12354d187aba","triggering_asset_events":{"numbers":[{"id":5,"timestamp":"2026-11-22T14:40:46.547000Z","extra":{"watcher":"number_files","event_id":"4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2","count":1,"watermark":{"from":"2026-11-22T14:40:46.272272Z","to":"2026-11-22T14:40:46.508072Z"},"files":[{"path":"/the/folder/numbers/one.csv","size":7,"last_modified":"2026-11-22T14:40:46.425129Z"}]},"asset":{"name":"numbers","uri":"numbers","group":"asset","extra":{}},"created_dagruns":[],"source_task_id":null,"source_dag_id":null,"source_run_id":null,"source_map_index":-1,"source_watcher":"number_files","partition_key":null,"source_dag_run":null,"source_task_instance":null}]},"inlets":[],"outlets":[{"name":"slow","uri":"slow"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-22 14:40:48.586000');
INSERT INTO "execution_answer" VALUES('271374db-2022-44c9-b02c-12354d187aba','ae34405503364d24adfe60abee00420b','09fda70e097cda5a2713a01292bb950591a26e643e548151189bc9fcc7ced096',204,NULL,'2026-11-22 14:40:48.655000');
INSERT INTO "execution_answer" VALUES('271374db-2022-44c9-b02c-12354d187aba','e76ba577e0a34e70954be9a778c9ef02','7c0468d6fd3879ba3ffc1dbc799555f742e7b212271f84893ce237a060ead3dd',204,NULL,'2026-11-22 14:40:48.692000');
CREATE TABLE job (
	dag_id VARCHAR(250) NOT NULL, 
	task_id VARCHAR(250) NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	paused BOOLEAN DEFAULT 0 NOT NULL, 
	definition TEXT NOT NULL, 
	cron VARCHAR(1000), 
	clock VARCHAR(1000), 
	next_tick DATETIME, 
	created_at DATETIME NOT NULL, 
	updated_at DATETIME NOT NULL, 
	CONSTRAINT pk_job PRIMARY KEY (dag_id)
);
INSERT INTO "job" VALUES('load','load',1,0,'{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/load.py", "master": "local[*]"}, "options": {}}',NULL,NULL,NULL,'2026-11-22 14:40:39.648000','2026-11-22 14:40:39.648000');
INSERT INTO "job" VALUES('held','load',1,1,'{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/load.py", "master": "local[*]"}, "options": {}}',NULL,NULL,NULL,'2026-11-22 14:40:39.648000','2026-11-22 14:40:39.648000');
INSERT INTO "job" VALUES('slow','slow',1,0,'{"schedule": "numbers", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/slow.py", "master": "local[*]"}, "options": {}}',NULL,NULL,NULL,'2026-11-22 14:40:39.648000','2026-11-22 14:40:39.648000');
INSERT INTO "job" VALUES('both','load',1,0,'{"schedule": {"all": ["inbox", "slow"]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "spark": {"application": "/the/folder/load.py", "master": "local[*]"}, "options": {}}',NULL,NULL,NULL,'2026-11-22 14:40:39.648000','2026-11-22 14:40:39.648000');
CREATE TABLE job_inlet (
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_inlet PRIMARY KEY (dag_id, asset_id), 
	CONSTRAINT fk_job_inlet_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_job_inlet_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
CREATE TABLE job_inlet_alias (
	dag_id VARCHAR(250) NOT NULL, 
	alias_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_inlet_alias PRIMARY KEY (dag_id, alias_id), 
	CONSTRAINT fk_job_inlet_alias_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_job_inlet_alias_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
CREATE TABLE job_outlet (
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_outlet PRIMARY KEY (dag_id, asset_id), 
	CONSTRAINT fk_job_outlet_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_job_outlet_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
INSERT INTO "job_outlet" VALUES('both',3);
INSERT INTO "job_outlet" VALUES('held',3);
INSERT INTO "job_outlet" VALUES('load',3);
INSERT INTO "job_outlet" VALUES('slow',4);
CREATE TABLE job_outlet_alias (
	dag_id VARCHAR(250) NOT NULL, 
	alias_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_outlet_alias PRIMARY KEY (dag_id, alias_id), 
	CONSTRAINT fk_job_outlet_alias_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_job_outlet_alias_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
CREATE TABLE job_schedule_alias (
	dag_id VARCHAR(250) NOT NULL, 
	alias_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_schedule_alias PRIMARY KEY (dag_id, alias_id), 
	CONSTRAINT fk_job_schedule_alias_alias_id FOREIGN KEY(alias_id) REFERENCES asset_alias (id), 
	CONSTRAINT fk_job_schedule_alias_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
CREATE TABLE job_schedule_asset (
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_schedule_asset PRIMARY KEY (dag_id, asset_id), 
	CONSTRAINT fk_job_schedule_asset_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_job_schedule_asset_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
INSERT INTO "job_schedule_asset" VALUES('both',1);
INSERT INTO "job_schedule_asset" VALUES('both',4);
INSERT INTO "job_schedule_asset" VALUES('held',1);
INSERT INTO "job_schedule_asset" VALUES('load',1);
INSERT INTO "job_schedule_asset" VALUES('slow',2);
CREATE TABLE leader (
	id INTEGER NOT NULL, 
	owner VARCHAR(36) NOT NULL, 
	epoch BIGINT NOT NULL, 
	expires_at DATETIME NOT NULL, 
	CONSTRAINT pk_leader PRIMARY KEY (id)
);
INSERT INTO "leader" VALUES(1,'5c782f93-73e7-43b9-a03f-0f5ff7669b26',1,'2026-11-22 14:40:53.525000');
CREATE TABLE queued_event (
	dag_id VARCHAR(250) NOT NULL, 
	event_id INTEGER NOT NULL, 
	asset_id INTEGER NOT NULL, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_queued_event PRIMARY KEY (dag_id, event_id), 
	CONSTRAINT fk_queued_event_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_queued_event_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id), 
	CONSTRAINT fk_queued_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id)
);
INSERT INTO "queued_event" VALUES('both',1,1,'2026-11-22 14:40:42.354000');
INSERT INTO "queued_event" VALUES('held',1,1,'2026-11-22 14:40:42.354000');
INSERT INTO "queued_event" VALUES('both',3,1,'2026-11-22 14:40:44.343000');
INSERT INTO "queued_event" VALUES('held',3,1,'2026-11-22 14:40:44.343000');
CREATE TABLE run (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	dag_id VARCHAR(250) NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	run_type VARCHAR(32) NOT NULL, 
	triggered_by VARCHAR(32) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	reason TEXT, 
	warning TEXT, 
	conf TEXT DEFAULT '{}' NOT NULL, 
	note TEXT, 
	trace_id VARCHAR(32) NOT NULL, 
	logical_date DATETIME, 
	data_interval_start DATETIME, 
	data_interval_end DATETIME, 
	run_after DATETIME NOT NULL, 
	queued_at DATETIME NOT NULL, 
	start_date DATETIME, 
	end_date DATETIME, 
	CONSTRAINT fk_run_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id), 
	CONSTRAINT uq_run_dag_id_run_id UNIQUE (dag_id, run_id)
);
INSERT INTO "run" VALUES(1,'load','asset_triggered__2026-11-22T14:40:42.418000+00:00_0','asset_triggered','asset','success',NULL,NULL,'{}',NULL,'9e671fd479cb4d4ea4f1fe8200d3bd8c',NULL,NULL,NULL,'2026-11-22 14:40:42.421000','2026-11-22 14:40:42.421000','2026-11-22 14:40:42.464000','2026-11-22 14:40:44.031000');
INSERT INTO "run" VALUES(2,'load','asset_triggered__2026-11-22T14:40:44.434000+00:00_0','asset_triggered','asset','success',NULL,NULL,'{}',NULL,'24331ff839ba4692b58731987af48a46',NULL,NULL,NULL,'2026-11-22 14:40:44.436000','2026-11-22 14:40:44.436000','2026-11-22 14:40:44.525000','2026-11-22 14:40:46.268000');
INSERT INTO "run" VALUES(3,'slow','asset_triggered__2026-11-22T14:40:46.587000+00:00_0','asset_triggered','asset','running',NULL,NULL,'{}',NULL,'02fd7b1bf999439cb253f8218284eecd',NULL,NULL,NULL,'2026-11-22 14:40:46.588000','2026-11-22 14:40:46.588000','2026-11-22 14:40:46.694000',NULL);
CREATE TABLE run_asset_event (
	dag_id VARCHAR(250) NOT NULL, 
	event_id INTEGER NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	completed BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_run_asset_event PRIMARY KEY (dag_id, event_id), 
	CONSTRAINT fk_run_asset_event_dag_id_run_id FOREIGN KEY(dag_id, run_id) REFERENCES run (dag_id, run_id), 
	CONSTRAINT fk_run_asset_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id)
);
INSERT INTO "run_asset_event" VALUES('load',1,'asset_triggered__2026-11-22T14:40:42.418000+00:00_0',1);
INSERT INTO "run_asset_event" VALUES('load',3,'asset_triggered__2026-11-22T14:40:44.434000+00:00_0',1);
INSERT INTO "run_asset_event" VALUES('slow',5,'asset_triggered__2026-11-22T14:40:46.587000+00:00_0',1);
CREATE TABLE setting (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_setting PRIMARY KEY ("key")
);
INSERT INTO "setting" VALUES('configuration_hash','1ffd15f2bcc86019807b46bef762171f108f4f3e46fb4207eccc04bc3ed08084');
CREATE TABLE task_instance (
	id VARCHAR(36) NOT NULL, 
	dag_id VARCHAR(250) NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	task_id VARCHAR(250) NOT NULL, 
	map_index INTEGER DEFAULT '-1' NOT NULL, 
	origin VARCHAR(8) DEFAULT 'own' NOT NULL, 
	try_number INTEGER DEFAULT '0' NOT NULL, 
	state VARCHAR(24) NOT NULL, 
	detail TEXT, 
	not_before DATETIME, 
	start_date DATETIME, 
	end_date DATETIME, 
	CONSTRAINT pk_task_instance PRIMARY KEY (id), 
	CONSTRAINT uq_task_instance_dag_id_run_id_task_id_map_index UNIQUE (dag_id, run_id, task_id, map_index)
);
INSERT INTO "task_instance" VALUES('1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c','load','asset_triggered__2026-11-22T14:40:42.418000+00:00_0','load',-1,'own',1,'success',NULL,NULL,'2026-11-22 14:40:43.071000','2026-11-22 14:40:44.000000');
INSERT INTO "task_instance" VALUES('a1f3927f-195a-42e5-bad3-16bbd6f7a070','load','asset_triggered__2026-11-22T14:40:44.434000+00:00_0','load',-1,'own',1,'success',NULL,NULL,'2026-11-22 14:40:45.119000','2026-11-22 14:40:46.245000');
INSERT INTO "task_instance" VALUES('271374db-2022-44c9-b02c-12354d187aba','slow','asset_triggered__2026-11-22T14:40:46.587000+00:00_0','slow',-1,'own',1,'running',NULL,NULL,'2026-11-22 14:40:47.474000',NULL);
CREATE TABLE task_store (
	dag_id VARCHAR(250) NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	task_id VARCHAR(250) NOT NULL, 
	map_index INTEGER NOT NULL, 
	"key" VARCHAR(512) NOT NULL, 
	value TEXT NOT NULL, 
	is_ref BOOLEAN DEFAULT 0 NOT NULL, 
	updated_at DATETIME NOT NULL, 
	expires_at DATETIME, 
	never_expire BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_task_store PRIMARY KEY (dag_id, run_id, task_id, map_index, "key")
);
INSERT INTO "task_store" VALUES('slow','asset_triggered__2026-11-22T14:40:46.587000+00:00_0','slow',-1,'began','true',0,'2026-11-22 14:40:48.695000','2026-12-22 14:40:48.686679',0);
CREATE TABLE task_try (
	task_instance_id VARCHAR(36) NOT NULL, 
	try_number INTEGER NOT NULL, 
	home_id VARCHAR(36) NOT NULL, 
	tag VARCHAR(64) NOT NULL, 
	token_hash VARCHAR(64) NOT NULL, 
	handle TEXT, 
	nonce VARCHAR(64), 
	finish_state VARCHAR(16), 
	message TEXT, 
	progress TEXT, 
	exit_code INTEGER, 
	counted BOOLEAN DEFAULT 1 NOT NULL, 
	intent_at DATETIME NOT NULL, 
	submitted_at DATETIME, 
	claimed_at DATETIME, 
	cancelled_at DATETIME, 
	ended_at DATETIME, 
	CONSTRAINT pk_task_try PRIMARY KEY (task_instance_id, try_number), 
	CONSTRAINT fk_task_try_task_instance_id FOREIGN KEY(task_instance_id) REFERENCES task_instance (id), 
	CONSTRAINT uq_task_try_tag UNIQUE (tag)
);
INSERT INTO "task_try" VALUES('1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c',1,'5c782f93-73e7-43b9-a03f-0f5ff7669b26','run-1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c-1','773d46704d5ee7d2833c20075191a986a5bf5924fed8919b6014d31ea9b360f1','{"folder": "/the/folder/home/runs/load/1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-22T14:40:42.418000+00:00_0/load/-1/1.log", "tag": "run-1d4b97ec-b59e-4e07-b164-bdc88e2a0e8c-1"}','10404d93b64f43cc8d9b2f0d4e77c204','success',NULL,NULL,0,1,'2026-11-22 14:40:42.461000','2026-11-22 14:40:43.072000','2026-11-22 14:40:43.929000',NULL,'2026-11-22 14:40:44.365000');
INSERT INTO "task_try" VALUES('a1f3927f-195a-42e5-bad3-16bbd6f7a070',1,'5c782f93-73e7-43b9-a03f-0f5ff7669b26','run-a1f3927f-195a-42e5-bad3-16bbd6f7a070-1','e6b6e0d251b62c339d1ed77db8f8a5e92bc6285d69fc169cf4f748f80386ef09','{"folder": "/the/folder/home/runs/load/a1f3927f-195a-42e5-bad3-16bbd6f7a070/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-22T14:40:44.434000+00:00_0/load/-1/1.log", "tag": "run-a1f3927f-195a-42e5-bad3-16bbd6f7a070-1"}','80ed75716b73431081c2ef3e88dda4ca','success',NULL,NULL,0,1,'2026-11-22 14:40:44.516000','2026-11-22 14:40:45.119000','2026-11-22 14:40:46.089000',NULL,'2026-11-22 14:40:46.678000');
INSERT INTO "task_try" VALUES('271374db-2022-44c9-b02c-12354d187aba',1,'5c782f93-73e7-43b9-a03f-0f5ff7669b26','run-271374db-2022-44c9-b02c-12354d187aba-1','54fedf245aeba49a125f5b2ccef0a4b39dfdf4d482ed26b5e0a4158b7ebc1a5f','{"folder": "/the/folder/home/runs/slow/271374db-2022-44c9-b02c-12354d187aba/1", "log": "/the/folder/home/logs/runs/slow/asset_triggered__2026-11-22T14:40:46.587000+00:00_0/slow/-1/1.log", "tag": "run-271374db-2022-44c9-b02c-12354d187aba-1"}','ef494b4ef7ae464bb58812fa708e22a8',NULL,NULL,NULL,NULL,1,'2026-11-22 14:40:46.693000','2026-11-22 14:40:47.474000','2026-11-22 14:40:48.588000',NULL,NULL);
CREATE TABLE triggerer (
	id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	pid INTEGER NOT NULL, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, 
	CONSTRAINT pk_triggerer PRIMARY KEY (id)
);
INSERT INTO "triggerer" VALUES('21ac05e0-694b-4123-b068-e8048daa900f','vm',22704,'2026-11-22 14:40:41.821000','2026-11-22 14:40:48.839000','2026-11-22 14:40:53.839000');
CREATE TABLE watcher (
	name VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	"trigger" VARCHAR(1000) NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	paused BOOLEAN DEFAULT 0 NOT NULL, 
	state VARCHAR(16) DEFAULT 'stopped' NOT NULL, 
	error TEXT, 
	error_count INTEGER DEFAULT '0' NOT NULL, 
	last_poll_at DATETIME, 
	last_event_at DATETIME, 
	lag_seconds INTEGER, 
	CONSTRAINT pk_watcher PRIMARY KEY (name), 
	CONSTRAINT fk_watcher_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "watcher" VALUES('inbox_files',1,'file.new_files',1,0,'running',NULL,0,'2026-11-22 14:40:48.833932','2026-11-22 14:40:44.347000',NULL);
INSERT INTO "watcher" VALUES('number_files',2,'file.new_files',1,0,'running',NULL,0,'2026-11-22 14:40:48.712134','2026-11-22 14:40:46.561000',NULL);
CREATE TABLE watcher_position (
	watcher VARCHAR(250) NOT NULL, 
	source_identity TEXT, 
	owner VARCHAR(36), 
	epoch BIGINT DEFAULT '0' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	watermark TEXT, 
	state TEXT, 
	previous TEXT, 
	updated_at DATETIME, 
	CONSTRAINT pk_watcher_position PRIMARY KEY (watcher)
);
INSERT INTO "watcher_position" VALUES('inbox_files','{"match": null, "min_size": 0, "path": "/the/folder/inbox", "regex": null, "trigger": "file.new_files"}','21ac05e0-694b-4123-b068-e8048daa900f',1,3,'{"up_to": "2026-11-22T14:40:44.306972Z", "horizon": null, "seen": 2, "scan": null}','{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-22T14:40:44.306972Z"}',NULL,'2026-11-22 14:40:44.339000');
INSERT INTO "watcher_position" VALUES('number_files','{"match": null, "min_size": 0, "path": "/the/folder/numbers", "regex": null, "trigger": "file.new_files"}','21ac05e0-694b-4123-b068-e8048daa900f',1,2,'{"up_to": "2026-11-22T14:40:46.508072Z", "horizon": null, "seen": 1, "scan": null}','{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-22T14:40:46.508072Z"}',NULL,'2026-11-22 14:40:46.542000');
CREATE TABLE watcher_position_row (
	watcher VARCHAR(250) NOT NULL, 
	member BIGINT NOT NULL, 
	value BIGINT NOT NULL, 
	CONSTRAINT pk_watcher_position_row PRIMARY KEY (watcher, member)
);
INSERT INTO "watcher_position_row" VALUES('inbox_files',-8133388861114175843,1795358442028025);
INSERT INTO "watcher_position_row" VALUES('inbox_files',-219350465340276024,1795358444171568);
INSERT INTO "watcher_position_row" VALUES('number_files',9005661917568408680,1795358446425129);
CREATE INDEX ix_audit_at ON audit (at);
CREATE INDEX ix_audit_write_id ON audit (write_id);
CREATE INDEX ix_execution_answer_created_at ON execution_answer (created_at);
CREATE INDEX ix_task_instance_state ON task_instance (state);
CREATE INDEX ix_task_store_expires_at ON task_store (expires_at);
CREATE INDEX ix_watcher_position_row_watcher_value ON watcher_position_row (watcher, value);
CREATE INDEX ix_asset_alias_asset_asset_id ON asset_alias_asset (asset_id);
CREATE INDEX ix_asset_event_asset_id_id ON asset_event (asset_id, id);
CREATE INDEX ix_asset_event_timestamp ON asset_event (timestamp);
CREATE INDEX ix_asset_store_history_write_id ON asset_store_history (write_id);
CREATE INDEX ix_asset_store_history_written_at ON asset_store_history (written_at);
CREATE INDEX ix_job_inlet_asset_id ON job_inlet (asset_id);
CREATE INDEX ix_job_inlet_alias_alias_id ON job_inlet_alias (alias_id);
CREATE INDEX ix_job_outlet_asset_id ON job_outlet (asset_id);
CREATE INDEX ix_job_outlet_alias_alias_id ON job_outlet_alias (alias_id);
CREATE INDEX ix_job_schedule_alias_alias_id ON job_schedule_alias (alias_id);
CREATE INDEX ix_job_schedule_asset_asset_id ON job_schedule_asset (asset_id);
CREATE INDEX ix_run_state_dag_id ON run (state, dag_id);
CREATE INDEX ix_task_try_home_id_ended_at ON task_try (home_id, ended_at);
CREATE INDEX ix_watcher_asset_id ON watcher (asset_id);
CREATE INDEX ix_asset_alias_event_event_id ON asset_alias_event (event_id);
CREATE INDEX ix_queued_event_asset_id ON queued_event (asset_id);
CREATE INDEX ix_queued_event_event_id ON queued_event (event_id);
CREATE INDEX ix_run_asset_event_dag_id_run_id ON run_asset_event (dag_id, run_id);
CREATE INDEX ix_run_asset_event_event_id ON run_asset_event (event_id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('asset',5);
INSERT INTO "sqlite_sequence" VALUES('audit',1);
INSERT INTO "sqlite_sequence" VALUES('asset_event',5);
INSERT INTO "sqlite_sequence" VALUES('run',3);
COMMIT;
