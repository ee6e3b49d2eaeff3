BEGIN TRANSACTION;
CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL, 
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
INSERT INTO "alembic_version" VALUES('0017');
CREATE TABLE alert (
	"key" VARCHAR(64) NOT NULL, 
	rule VARCHAR(64) NOT NULL, 
	alert VARCHAR(32) NOT NULL, 
	subject TEXT NOT NULL, 
	message TEXT NOT NULL, 
	since DATETIME NOT NULL, 
	is_fired BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_alert PRIMARY KEY ("key")
);
CREATE TABLE api_session (
	id_hash VARCHAR(64) NOT NULL, 
	token_id VARCHAR(36) NOT NULL, 
	expires_at DATETIME NOT NULL, 
	CONSTRAINT pk_api_session PRIMARY KEY (id_hash), 
	CONSTRAINT fk_api_session_token_id FOREIGN KEY(token_id) REFERENCES api_token (id)
);
CREATE TABLE api_token (
	id VARCHAR(36) NOT NULL, 
	subject VARCHAR(250) NOT NULL, 
	role VARCHAR(16) NOT NULL, 
	token_hash VARCHAR(64) NOT NULL, 
	created_at DATETIME NOT NULL, 
	revoked_at DATETIME, name VARCHAR(250), lifetime_seconds INTEGER, expires_at DATETIME, last_used_at DATETIME, 
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
INSERT INTO "asset" VALUES(1,'inbox','inbox','asset','{}','yaml',1,NULL,'2026-11-28 17:18:38.945000','2026-11-28 17:18:38.945000');
INSERT INTO "asset" VALUES(2,'numbers','numbers','asset','{}','yaml',1,NULL,'2026-11-28 17:18:38.945000','2026-11-28 17:18:38.945000');
INSERT INTO "asset" VALUES(3,'loaded','loaded','asset','{}','yaml',1,NULL,'2026-11-28 17:18:38.945000','2026-11-28 17:18:38.945000');
INSERT INTO "asset" VALUES(4,'slow','slow','asset','{}','yaml',1,NULL,'2026-11-28 17:18:38.945000','2026-11-28 17:18:38.945000');
INSERT INTO "asset" VALUES(5,'all','all','asset','{}','yaml',1,NULL,'2026-11-28 17:18:38.945000','2026-11-28 17:18:38.945000');
CREATE TABLE asset_alias (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	name VARCHAR(250) NOT NULL, 
	"group" VARCHAR(1500) DEFAULT ('') NOT NULL, 
	active BOOLEAN DEFAULT 1 NOT NULL, 
	CONSTRAINT uq_asset_alias_name UNIQUE (name)
);
INSERT INTO "asset_alias" VALUES(1,'parts','asset',1);
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
INSERT INTO "asset_event" VALUES(1,1,'{"watcher": "inbox_files", "event_id": "9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59", "count": 1, "watermark": {"from": "2026-11-28T17:18:39.056800Z", "to": "2026-11-28T17:18:39.269076Z"}, "files": [{"path": "/the/folder/inbox/a.csv", "size": 5, "last_modified": "2026-11-28T17:18:39.112234Z"}]}','2026-11-28 17:18:39.291000','9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59','60fbfefb067e97e078412f9c6ea622b2',NULL,NULL,NULL,-1,'inbox_files',NULL);
INSERT INTO "asset_event" VALUES(2,3,'{}','2026-11-28 17:18:39.470000',NULL,'60fbfefb067e97e078412f9c6ea622b2','load','asset_triggered__2026-11-28T17:18:39.301000+00:00_0','load',-1,NULL,NULL);
INSERT INTO "asset_event" VALUES(3,1,'{"watcher": "inbox_files", "event_id": "c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc", "count": 1, "watermark": {"from": "2026-11-28T17:18:39.269076Z", "to": "2026-11-28T17:18:39.705224Z"}, "files": [{"path": "/the/folder/inbox/b.csv", "size": 5, "last_modified": "2026-11-28T17:18:39.543260Z"}]}','2026-11-28 17:18:39.726000','c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc','5a783838820d1f6826f5a50daf075ed5',NULL,NULL,NULL,-1,'inbox_files',NULL);
INSERT INTO "asset_event" VALUES(4,3,'{}','2026-11-28 17:18:39.872000',NULL,'5a783838820d1f6826f5a50daf075ed5','load','asset_triggered__2026-11-28T17:18:39.731000+00:00_0','load',-1,NULL,NULL);
INSERT INTO "asset_event" VALUES(5,2,'{"watcher": "number_files", "event_id": "4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2", "count": 1, "watermark": {"from": "2026-11-28T17:18:39.057061Z", "to": "2026-11-28T17:18:40.124141Z"}, "files": [{"path": "/the/folder/numbers/one.csv", "size": 7, "last_modified": "2026-11-28T17:18:39.967489Z"}]}','2026-11-28 17:18:40.145000','4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2','2245531920bd10c9fe3d0e5f1e9c757c',NULL,NULL,NULL,-1,'number_files',NULL);
CREATE TABLE asset_forward (
	asset_id INTEGER NOT NULL, 
	target VARCHAR(1500) NOT NULL, 
	CONSTRAINT pk_asset_forward PRIMARY KEY (asset_id), 
	CONSTRAINT fk_asset_forward_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "asset_forward" VALUES(3,'theirs');
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
INSERT INTO "asset_store" VALUES(1,'inbox_files.watermark','{"up_to": "2026-11-28T17:18:39.705224Z", "horizon": null, "seen": 2, "scan": null}',0,3,'2026-11-28 17:18:39.727000','watcher',NULL,NULL,NULL,NULL,'inbox_files',NULL,'66cbbb64d53430a1e22bde97ed9e715f');
INSERT INTO "asset_store" VALUES(2,'number_files.watermark','{"up_to": "2026-11-28T17:18:40.124141Z", "horizon": null, "seen": 1, "scan": null}',0,2,'2026-11-28 17:18:40.146000','watcher',NULL,NULL,NULL,NULL,'number_files',NULL,'e76ea919ddb1147f526da432a1d52cd3');
INSERT INTO "asset_store" VALUES(3,'asset_triggered__2026-11-28T17:18:39.301000+00:00_0','["a.csv"]',0,1,'2026-11-28 17:18:39.463000','task','load','asset_triggered__2026-11-28T17:18:39.301000+00:00_0','load',-1,NULL,NULL,'4bad7b1263cd4e48b760fe753e15c6e0');
INSERT INTO "asset_store" VALUES(3,'asset_triggered__2026-11-28T17:18:39.731000+00:00_0','["b.csv"]',0,1,'2026-11-28 17:18:39.867000','task','load','asset_triggered__2026-11-28T17:18:39.731000+00:00_0','load',-1,NULL,NULL,'d6f43f23e01b445cb10ecafe64a4d9d4');
INSERT INTO "asset_store" VALUES(4,'began','"asset_triggered__2026-11-28T17:18:40.148000+00:00_0"',0,1,'2026-11-28 17:18:40.276000','task','slow','asset_triggered__2026-11-28T17:18:40.148000+00:00_0','slow',-1,NULL,NULL,'7ea549fa6b5642f097cb89ec58fe98a4');
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
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',1,'{"up_to": "2026-11-28T17:18:39.056800Z", "horizon": null, "seen": 0, "scan": null}',0,0,'2026-11-28 17:18:39.084000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'05ba28761c7f9f2e5c09edf38d475492');
INSERT INTO "asset_store_history" VALUES(2,'number_files.watermark',1,'{"up_to": "2026-11-28T17:18:39.057061Z", "horizon": null, "seen": 0, "scan": null}',0,0,'2026-11-28 17:18:39.087000','watcher',NULL,NULL,NULL,NULL,NULL,'number_files',NULL,'69f6cf0fb27dfbcd2f403b42ab6691b2');
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',2,'{"up_to": "2026-11-28T17:18:39.269076Z", "horizon": null, "seen": 1, "scan": null}',0,0,'2026-11-28 17:18:39.294000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'bc30f40031650103e3c4f791fb1176c4');
INSERT INTO "asset_store_history" VALUES(3,'asset_triggered__2026-11-28T17:18:39.301000+00:00_0',1,'["a.csv"]',0,0,'2026-11-28 17:18:39.463000','task','load','asset_triggered__2026-11-28T17:18:39.301000+00:00_0','load',-1,1,NULL,NULL,'4bad7b1263cd4e48b760fe753e15c6e0');
INSERT INTO "asset_store_history" VALUES(1,'inbox_files.watermark',3,'{"up_to": "2026-11-28T17:18:39.705224Z", "horizon": null, "seen": 2, "scan": null}',0,0,'2026-11-28 17:18:39.727000','watcher',NULL,NULL,NULL,NULL,NULL,'inbox_files',NULL,'66cbbb64d53430a1e22bde97ed9e715f');
INSERT INTO "asset_store_history" VALUES(3,'asset_triggered__2026-11-28T17:18:39.731000+00:00_0',1,'["b.csv"]',0,0,'2026-11-28 17:18:39.867000','task','load','asset_triggered__2026-11-28T17:18:39.731000+00:00_0','load',-1,1,NULL,NULL,'d6f43f23e01b445cb10ecafe64a4d9d4');
INSERT INTO "asset_store_history" VALUES(2,'number_files.watermark',2,'{"up_to": "2026-11-28T17:18:40.124141Z", "horizon": null, "seen": 1, "scan": null}',0,0,'2026-11-28 17:18:40.146000','watcher',NULL,NULL,NULL,NULL,NULL,'number_files',NULL,'e76ea919ddb1147f526da432a1d52cd3');
INSERT INTO "asset_store_history" VALUES(4,'began',1,'"asset_triggered__2026-11-28T17:18:40.148000+00:00_0"',0,0,'2026-11-28 17:18:40.277000','task','slow','asset_triggered__2026-11-28T17:18:40.148000+00:00_0','slow',-1,1,NULL,NULL,'7ea549fa6b5642f097cb89ec58fe98a4');
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
INSERT INTO "audit" VALUES(1,'2026-11-28 17:18:39.098000','anonymous','job.pause','held','{}','c8ac4c0fad9346bab90ca8c33b5e4b4b');
CREATE TABLE dispatcher (
	home_id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	pid INTEGER NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, configuration VARCHAR(64), 
	CONSTRAINT pk_dispatcher PRIMARY KEY (home_id)
);
INSERT INTO "dispatcher" VALUES('fb1d82ae-a022-47b4-ac3b-548b2433bef9','vm',12845,'2026-11-28 17:18:39.027000','2026-11-28 17:18:44.027000','e574a4aa0cf29af6ba305166c09e79bd1cb14bc18eec27a959f7d1684f1fad72');
CREATE TABLE execution_answer (
	task_instance_id VARCHAR(36) NOT NULL, 
	"key" VARCHAR(255) NOT NULL, 
	request VARCHAR(64) NOT NULL, 
	status INTEGER NOT NULL, 
	body TEXT, 
	created_at DATETIME NOT NULL, 
	CONSTRAINT pk_execution_answer PRIMARY KEY (task_instance_id, "key")
);
INSERT INTO "execution_answer" VALUES('a2927631-e98a-4926-9de3-8db6b8165043','8ce26b32cc66423eb803631233e0c2d3','181bfe0dedafdfab8e9fb032c9d8fead69c34dbae2921587a576afba32a344e5',200,'{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:18:39.301000+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"a2927631-e98a-4926-9de3-8db6b8165043","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"triggering_asset_events":{"inbox":[{"id":1,"asset_id":1,"timestamp":"2026-11-28T17:18:39.291000Z","extra":{"watcher":"inbox_files","event_id":"9ee4afa40a62476ccbf2105b67c60c334e7fb3b146f8003e696eea9cee066c59","count":1,"watermark":{"from":"2026-11-28T17:18:39.056800Z","to":"2026-11-28T17:18:39.269076Z"},"files":[{"path":"/the/folder/inbox/a.csv","size":5,"last_modified":"2026-11-28T17:18:39.112234Z"}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"60fbfefb067e97e078412f9c6ea622b2","asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[],"partition_key":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-28 17:18:39.447000');
INSERT INTO "execution_answer" VALUES('a2927631-e98a-4926-9de3-8db6b8165043','40ada8a4970b41e082e8078454785229','b13f0ecd2393df260eddb201d5a6974841689c80e0f64b87e154415fcf91922c',204,NULL,'2026-11-28 17:18:39.462000');
INSERT INTO "execution_answer" VALUES('a2927631-e98a-4926-9de3-8db6b8165043','7d2e1abb82574add9daa4eb97c9b52fb','a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1',200,'{}','2026-11-28 17:18:39.467000');
INSERT INTO "execution_answer" VALUES('207431d2-de2a-4132-b52d-6c22601908ce','7fc6ff5b8c504bcbadcdf1c7af11d245','69101fd1ee7b5846c86a65d36da3e99716d6f4b8975ab68276432007e0b998d3',200,'{"dag_id":"load","run_id":"asset_triggered__2026-11-28T17:18:39.731000+00:00_0","task_id":"load","map_index":-1,"try_number":1,"task_instance_id":"207431d2-de2a-4132-b52d-6c22601908ce","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"triggering_asset_events":{"inbox":[{"id":3,"asset_id":1,"timestamp":"2026-11-28T17:18:39.726000Z","extra":{"watcher":"inbox_files","event_id":"c125e0d418feb63ff069f7183dd621221633b57ef2454c91bdd409d4138ac3fc","count":1,"watermark":{"from":"2026-11-28T17:18:39.269076Z","to":"2026-11-28T17:18:39.705224Z"},"files":[{"path":"/the/folder/inbox/b.csv","size":5,"last_modified":"2026-11-28T17:18:39.543260Z"}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"inbox_files","trace_id":"5a783838820d1f6826f5a50daf075ed5","asset":{"name":"inbox","uri":"inbox","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[],"partition_key":null}]},"inlets":[],"outlets":[{"name":"loaded","uri":"loaded"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-28 17:18:39.856000');
INSERT INTO "execution_answer" VALUES('207431d2-de2a-4132-b52d-6c22601908ce','4c487563612943509a190972ad10758a','c7a738ea7bb45cb77f2c7d24dd7d3512c9e0ea50d9bd7850d48a05d03b0fcaa5',204,NULL,'2026-11-28 17:18:39.867000');
INSERT INTO "execution_answer" VALUES('207431d2-de2a-4132-b52d-6c22601908ce','4458877c765a433f903cc48084c12389','a1f1c9d4fc9cce3fa735c7b15ced94b3f813e8c846d7b288b5dd3a49753633c1',200,'{}','2026-11-28 17:18:39.870000');
INSERT INTO "execution_answer" VALUES('c249f90f-40bb-441b-a521-7a7a45ae8030','25d4329cc61349a489423035baa1700a','08050359174778b5beec5ead8dc1cc67d753a9c6a9710ed2a07a4964253a901e',200,'{"dag_id":"slow","run_id":"asset_triggered__2026-11-28T17:18:40.148000+00:00_0","task_id":"slow","map_index":-1,"try_number":1,"task_instance_id":"c249f90f-40bb-441b-a521-7a7a45ae8030","conf":{},"logical_date":null,"data_interval_start":null,"data_interval_end":null,"triggering_asset_events":{"numbers":[{"id":5,"asset_id":2,"timestamp":"2026-11-28T17:18:40.145000Z","extra":{"watcher":"number_files","event_id":"4ce2a43a6d2c636b4a228fc7305f0eb23fa9f8285402c78dd11a89552a90bad2","count":1,"watermark":{"from":"2026-11-28T17:18:39.057061Z","to":"2026-11-28T17:18:40.124141Z"},"files":[{"path":"/the/folder/numbers/one.csv","size":7,"last_modified":"2026-11-28T17:18:39.967489Z"}]},"source_dag_id":null,"source_run_id":null,"source_task_id":null,"source_map_index":-1,"source_watcher":"number_files","trace_id":"2245531920bd10c9fe3d0e5f1e9c757c","asset":{"name":"numbers","uri":"numbers","group":"asset","extra":{}},"source_dag_run":null,"source_task_instance":null,"created_dagruns":[],"partition_key":null}]},"inlets":[],"outlets":[{"name":"slow","uri":"slow"}],"options":{},"worker_backend":null,"default_retention_days":30,"clear_on_success":false}','2026-11-28 17:18:40.270000');
INSERT INTO "execution_answer" VALUES('c249f90f-40bb-441b-a521-7a7a45ae8030','b30e8db2c57b4d028db910a6050d93be','7b67d043a0c23dd7a41531bd99d7d0c734a0c46bd0de92b2280665dfcd3b9bc2',204,NULL,'2026-11-28 17:18:40.276000');
INSERT INTO "execution_answer" VALUES('c249f90f-40bb-441b-a521-7a7a45ae8030','27969e692c154dbba6e098e0260f201e','f94a14c88458246f9742bee51826ced3a70fbe7e8099eb6b502bf74d2c6a5752',204,NULL,'2026-11-28 17:18:40.280000');
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
	updated_at DATETIME NOT NULL, rest_to BIGINT, rest_completed_by BIGINT, 
	CONSTRAINT pk_job PRIMARY KEY (dag_id)
);
INSERT INTO "job" VALUES('load','load',1,0,'{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:18:38.949000','2026-11-28 17:18:38.949000',NULL,NULL);
INSERT INTO "job" VALUES('held','load',1,1,'{"schedule": "inbox", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:18:38.949000','2026-11-28 17:18:38.949000',NULL,NULL);
INSERT INTO "job" VALUES('slow','slow',1,0,'{"schedule": "numbers", "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/slow.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:18:38.949000','2026-11-28 17:18:38.949000',NULL,NULL);
INSERT INTO "job" VALUES('both','load',1,0,'{"schedule": {"all": ["inbox", "slow"]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:18:38.949000','2026-11-28 17:18:38.949000',NULL,NULL);
INSERT INTO "job" VALUES('aliased','load',1,1,'{"schedule": {"any": ["inbox", {"alias": "parts"}]}, "batch": {"mode": "coalesce", "debounce": 0.0, "max_wait": 300.0, "max_events": 1000}, "cron": null, "catchup": false, "max_active_runs": 1, "retries": 0, "retry_delay": 30.0, "timeout": null, "deadline": null, "options": {}, "spark": {"application": "/the/folder/load.py", "master": "local[*]", "submitter": "spark-submit"}}',NULL,NULL,NULL,'2026-11-28 17:18:38.949000','2026-11-28 17:18:38.949000',NULL,NULL);
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
INSERT INTO "job_schedule_alias" VALUES('aliased',1);
CREATE TABLE job_schedule_asset (
	dag_id VARCHAR(250) NOT NULL, 
	asset_id INTEGER NOT NULL, 
	CONSTRAINT pk_job_schedule_asset PRIMARY KEY (dag_id, asset_id), 
	CONSTRAINT fk_job_schedule_asset_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id), 
	CONSTRAINT fk_job_schedule_asset_dag_id FOREIGN KEY(dag_id) REFERENCES job (dag_id)
);
INSERT INTO "job_schedule_asset" VALUES('aliased',1);
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
INSERT INTO "leader" VALUES(1,'fb1d82ae-a022-47b4-ac3b-548b2433bef9',1,'2026-11-28 17:18:45.023000');
CREATE TABLE listen_position (
	source VARCHAR(1500) NOT NULL, 
	newest DATETIME, 
	CONSTRAINT pk_listen_position PRIMARY KEY (source)
);
CREATE TABLE listen_seen (
	source VARCHAR(1500) NOT NULL, 
	event_id BIGINT NOT NULL, 
	timestamp DATETIME NOT NULL, 
	CONSTRAINT pk_listen_seen PRIMARY KEY (source, event_id, timestamp), 
	CONSTRAINT fk_listen_seen_source FOREIGN KEY(source) REFERENCES listen_position (source) ON DELETE CASCADE
);
CREATE TABLE outbox (
	id INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT, 
	destination VARCHAR(64) NOT NULL, 
	lane VARCHAR(250) NOT NULL, 
	message_id VARCHAR(250), 
	asset_event_id INTEGER, 
	body TEXT, 
	created_at DATETIME NOT NULL, 
	attempts INTEGER DEFAULT '0' NOT NULL, 
	first_attempt_at DATETIME, 
	attempt_at DATETIME, 
	not_before DATETIME, 
	refused BOOLEAN DEFAULT 0 NOT NULL, 
	error TEXT, 
	CONSTRAINT fk_outbox_asset_event_id FOREIGN KEY(asset_event_id) REFERENCES asset_event (id)
);
INSERT INTO "outbox" VALUES(1,'airflow','3',NULL,2,NULL,'2026-11-28 17:18:39.471000',1,'2026-11-28 17:18:39.486000',NULL,'2026-11-28 17:18:40.500000',0,'Airflow cannot be reached at http://127.0.0.1:9: All connection attempts failed');
INSERT INTO "outbox" VALUES(2,'airflow','3',NULL,4,NULL,'2026-11-28 17:18:39.873000',0,NULL,NULL,NULL,0,NULL);
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
INSERT INTO "queued_event" VALUES('aliased',1,1,'2026-11-28 17:18:39.291000');
INSERT INTO "queued_event" VALUES('both',1,1,'2026-11-28 17:18:39.291000');
INSERT INTO "queued_event" VALUES('held',1,1,'2026-11-28 17:18:39.291000');
INSERT INTO "queued_event" VALUES('aliased',3,1,'2026-11-28 17:18:39.726000');
INSERT INTO "queued_event" VALUES('both',3,1,'2026-11-28 17:18:39.726000');
INSERT INTO "queued_event" VALUES('held',3,1,'2026-11-28 17:18:39.726000');
CREATE TABLE rejected_item (
	watcher VARCHAR(250) NOT NULL, 
	digest VARCHAR(64) NOT NULL, 
	"key" TEXT NOT NULL, 
	version TEXT NOT NULL, 
	column_name TEXT, 
	code VARCHAR(16) NOT NULL, 
	reason TEXT NOT NULL, 
	rejected_at DATETIME NOT NULL, 
	retry_at DATETIME, 
	CONSTRAINT pk_rejected_item PRIMARY KEY (watcher, digest)
);
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
INSERT INTO "run" VALUES(1,'load','asset_triggered__2026-11-28T17:18:39.301000+00:00_0','asset_triggered','asset','success',NULL,NULL,'{}',NULL,'60fbfefb067e97e078412f9c6ea622b2',NULL,NULL,NULL,'2026-11-28 17:18:39.302000','2026-11-28 17:18:39.302000','2026-11-28 17:18:39.310000','2026-11-28 17:18:39.468000');
INSERT INTO "run" VALUES(2,'load','asset_triggered__2026-11-28T17:18:39.731000+00:00_0','asset_triggered','asset','success',NULL,NULL,'{}',NULL,'5a783838820d1f6826f5a50daf075ed5',NULL,NULL,NULL,'2026-11-28 17:18:39.732000','2026-11-28 17:18:39.732000','2026-11-28 17:18:39.737000','2026-11-28 17:18:39.871000');
INSERT INTO "run" VALUES(3,'slow','asset_triggered__2026-11-28T17:18:40.148000+00:00_0','asset_triggered','asset','running',NULL,NULL,'{}',NULL,'2245531920bd10c9fe3d0e5f1e9c757c',NULL,NULL,NULL,'2026-11-28 17:18:40.149000','2026-11-28 17:18:40.149000','2026-11-28 17:18:40.155000',NULL);
CREATE TABLE run_asset_event (
	dag_id VARCHAR(250) NOT NULL, 
	event_id INTEGER NOT NULL, 
	run_id VARCHAR(250) NOT NULL, 
	completed BOOLEAN DEFAULT 0 NOT NULL, 
	CONSTRAINT pk_run_asset_event PRIMARY KEY (dag_id, event_id), 
	CONSTRAINT fk_run_asset_event_dag_id_run_id FOREIGN KEY(dag_id, run_id) REFERENCES run (dag_id, run_id), 
	CONSTRAINT fk_run_asset_event_event_id FOREIGN KEY(event_id) REFERENCES asset_event (id)
);
INSERT INTO "run_asset_event" VALUES('load',1,'asset_triggered__2026-11-28T17:18:39.301000+00:00_0',1);
INSERT INTO "run_asset_event" VALUES('load',3,'asset_triggered__2026-11-28T17:18:39.731000+00:00_0',1);
INSERT INTO "run_asset_event" VALUES('slow',5,'asset_triggered__2026-11-28T17:18:40.148000+00:00_0',1);
CREATE TABLE setting (
	"key" VARCHAR(64) NOT NULL, 
	value TEXT NOT NULL, 
	CONSTRAINT pk_setting PRIMARY KEY ("key")
);
INSERT INTO "setting" VALUES('configuration_hash','e574a4aa0cf29af6ba305166c09e79bd1cb14bc18eec27a959f7d1684f1fad72');
INSERT INTO "setting" VALUES('instance','5a22a07d-6c04-44ac-b5ec-05c1b70e617f');
INSERT INTO "setting" VALUES('signing_keys','{"digests": ["fcbc01f179c5632c5c6872d2d66f29c736d46cd5d8d94dd0f4ab05ff8c41c16b"], "host": "vm", "pid": 12845}');
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
INSERT INTO "task_instance" VALUES('a2927631-e98a-4926-9de3-8db6b8165043','load','asset_triggered__2026-11-28T17:18:39.301000+00:00_0','load',-1,'own',1,'success',NULL,NULL,'2026-11-28 17:18:39.402000','2026-11-28 17:18:39.468000');
INSERT INTO "task_instance" VALUES('207431d2-de2a-4132-b52d-6c22601908ce','load','asset_triggered__2026-11-28T17:18:39.731000+00:00_0','load',-1,'own',1,'success',NULL,NULL,'2026-11-28 17:18:39.811000','2026-11-28 17:18:39.871000');
INSERT INTO "task_instance" VALUES('c249f90f-40bb-441b-a521-7a7a45ae8030','slow','asset_triggered__2026-11-28T17:18:40.148000+00:00_0','slow',-1,'own',1,'running',NULL,NULL,'2026-11-28 17:18:40.229000',NULL);
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
INSERT INTO "task_store" VALUES('slow','asset_triggered__2026-11-28T17:18:40.148000+00:00_0','slow',-1,'began','true',0,'2026-11-28 17:18:40.281000','2026-12-28 17:18:40.278350',0);
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
	ended_at DATETIME, submitter VARCHAR(250) DEFAULT 'spark-submit' NOT NULL, first_action_at DATETIME, cost TEXT, 
	CONSTRAINT pk_task_try PRIMARY KEY (task_instance_id, try_number), 
	CONSTRAINT fk_task_try_task_instance_id FOREIGN KEY(task_instance_id) REFERENCES task_instance (id), 
	CONSTRAINT uq_task_try_tag UNIQUE (tag)
);
INSERT INTO "task_try" VALUES('a2927631-e98a-4926-9de3-8db6b8165043',1,'fb1d82ae-a022-47b4-ac3b-548b2433bef9','run-a2927631-e98a-4926-9de3-8db6b8165043-1','b5e8ec3ecb618db3fb040889a310f69e7119941cbb683787d393d4cc80bd0199','{"folder": "/the/folder/home/runs/load/a2927631-e98a-4926-9de3-8db6b8165043/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:18:39.301000+00:00_0/load/-1/1.log", "tag": "run-a2927631-e98a-4926-9de3-8db6b8165043-1"}','d062294ff8ae49f2a7a5e5f9e1874266','success',NULL,NULL,0,0,'2026-11-28 17:18:39.310000','2026-11-28 17:18:39.396000','2026-11-28 17:18:39.447000',NULL,'2026-11-28 17:18:39.709000','spark-submit',NULL,'{"cpu_seconds": 0.096, "peak_memory_mb": 23}');
INSERT INTO "task_try" VALUES('207431d2-de2a-4132-b52d-6c22601908ce',1,'fb1d82ae-a022-47b4-ac3b-548b2433bef9','run-207431d2-de2a-4132-b52d-6c22601908ce-1','98ad311da336785a0d906c52bf9ac647cd95371d4062b7c127ec971058aa3cdb','{"folder": "/the/folder/home/runs/load/207431d2-de2a-4132-b52d-6c22601908ce/1", "log": "/the/folder/home/logs/runs/load/asset_triggered__2026-11-28T17:18:39.731000+00:00_0/load/-1/1.log", "tag": "run-207431d2-de2a-4132-b52d-6c22601908ce-1"}','2c71c77908234062a9fc4771385013fd','success',NULL,NULL,0,0,'2026-11-28 17:18:39.737000','2026-11-28 17:18:39.810000','2026-11-28 17:18:39.857000',NULL,'2026-11-28 17:18:40.116000','spark-submit',NULL,'{"cpu_seconds": 0.095, "peak_memory_mb": 23}');
INSERT INTO "task_try" VALUES('c249f90f-40bb-441b-a521-7a7a45ae8030',1,'fb1d82ae-a022-47b4-ac3b-548b2433bef9','run-c249f90f-40bb-441b-a521-7a7a45ae8030-1','5e2441a95dce4e480c74740e4dabf637d53f96e3e6e79713f0cc786f5094149c','{"folder": "/the/folder/home/runs/slow/c249f90f-40bb-441b-a521-7a7a45ae8030/1", "log": "/the/folder/home/logs/runs/slow/asset_triggered__2026-11-28T17:18:40.148000+00:00_0/slow/-1/1.log", "tag": "run-c249f90f-40bb-441b-a521-7a7a45ae8030-1"}','48c941caaf1a4e70bc5571f697d4435b',NULL,NULL,NULL,NULL,1,'2026-11-28 17:18:40.155000','2026-11-28 17:18:40.228000','2026-11-28 17:18:40.270000',NULL,NULL,'spark-submit',NULL,NULL);
CREATE TABLE triggerer (
	id VARCHAR(36) NOT NULL, 
	host VARCHAR(255) NOT NULL, 
	pid INTEGER NOT NULL, 
	started_at DATETIME NOT NULL, 
	heartbeat_at DATETIME NOT NULL, 
	expires_at DATETIME NOT NULL, capacity INTEGER DEFAULT '10000' NOT NULL, configuration VARCHAR(64), definitions TEXT, 
	CONSTRAINT pk_triggerer PRIMARY KEY (id)
);
INSERT INTO "triggerer" VALUES('b2cfb815-e957-4e2e-b1ee-72bb4a14384c','vm',12845,'2026-11-28 17:18:39.042000','2026-11-28 17:18:40.040000','2026-11-28 17:18:45.040000',10000,'e574a4aa0cf29af6ba305166c09e79bd1cb14bc18eec27a959f7d1684f1fad72','{"inbox_files": "f04a4677a01486a8", "number_files": "ec4940cd74bf8b9b"}');
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
	lag_seconds INTEGER, up_to TEXT, up_to_version BIGINT, definition VARCHAR(64), findings TEXT, polls TEXT, 
	CONSTRAINT pk_watcher PRIMARY KEY (name), 
	CONSTRAINT fk_watcher_asset_id FOREIGN KEY(asset_id) REFERENCES asset (id)
);
INSERT INTO "watcher" VALUES('inbox_files',1,'file.new_files',1,0,'running',NULL,0,'2026-11-28 17:18:39.926405','2026-11-28 17:18:39.727000',0,'"2026-11-28T17:18:39.906354Z"',3,'f04a4677a01486a8',NULL,'[{"started": "2026-11-28T17:18:39.289Z", "seconds": 0.007714, "found": 1, "committed": 1, "error": null, "times": 1}, {"started": "2026-11-28T17:18:39.725Z", "seconds": 0.003592, "found": 1, "committed": 1, "error": null, "times": 1}]');
INSERT INTO "watcher" VALUES('number_files',2,'file.new_files',1,0,'running',NULL,0,'2026-11-28 17:18:39.926261','2026-11-28 17:18:40.146000',0,'"2026-11-28T17:18:39.906240Z"',1,'ec4940cd74bf8b9b',NULL,NULL);
CREATE TABLE watcher_position (
	watcher VARCHAR(250) NOT NULL, 
	source_identity TEXT, 
	owner VARCHAR(36), 
	epoch BIGINT DEFAULT '0' NOT NULL, 
	version BIGINT DEFAULT '0' NOT NULL, 
	watermark TEXT, 
	state TEXT, 
	previous TEXT, 
	updated_at DATETIME, format INTEGER DEFAULT '1' NOT NULL, undo_ended TEXT, 
	CONSTRAINT pk_watcher_position PRIMARY KEY (watcher)
);
INSERT INTO "watcher_position" VALUES('inbox_files','{"match": null, "min_size": 0, "path": "/the/folder/inbox", "regex": null, "trigger": "file.new_files"}','b2cfb815-e957-4e2e-b1ee-72bb4a14384c',1,3,'{"up_to": "2026-11-28T17:18:39.705224Z", "horizon": null, "seen": 2, "scan": null}','{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:18:39.705224Z"}',NULL,'2026-11-28 17:18:39.726000',1,NULL);
INSERT INTO "watcher_position" VALUES('number_files','{"match": null, "min_size": 0, "path": "/the/folder/numbers", "regex": null, "trigger": "file.new_files"}','b2cfb815-e957-4e2e-b1ee-72bb4a14384c',1,2,'{"up_to": "2026-11-28T17:18:40.124141Z", "horizon": null, "seen": 1, "scan": null}','{"horizon": null, "baseline": null, "began": null, "next_horizon": null, "cursor": null, "up_to": "2026-11-28T17:18:40.124141Z"}',NULL,'2026-11-28 17:18:40.145000',1,NULL);
CREATE TABLE watcher_position_row (
	watcher VARCHAR(250) NOT NULL, 
	member BIGINT NOT NULL, 
	value BIGINT NOT NULL, 
	CONSTRAINT pk_watcher_position_row PRIMARY KEY (watcher, member)
);
INSERT INTO "watcher_position_row" VALUES('inbox_files',-3397598208696517682,1795886319112234);
INSERT INTO "watcher_position_row" VALUES('inbox_files',1392269473840841983,1795886319543260);
INSERT INTO "watcher_position_row" VALUES('number_files',3602247935346192879,1795886319967489);
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
CREATE INDEX ix_queued_event_dag_id_asset_id_event_id ON queued_event (dag_id, asset_id, event_id);
CREATE INDEX ix_asset_event_trace_id ON asset_event (trace_id);
CREATE INDEX ix_run_trace_id ON run (trace_id);
CREATE INDEX ix_asset_store_history_dag_id_run_id ON asset_store_history (dag_id, run_id) WHERE dag_id IS NOT NULL;
CREATE INDEX ix_asset_event_source_dag_id_source_run_id ON asset_event (source_dag_id, source_run_id) WHERE source_dag_id IS NOT NULL;
CREATE INDEX ix_outbox_asset_event_id ON outbox (asset_event_id);
CREATE INDEX ix_outbox_destination_lane_id ON outbox (destination, lane, id);
DELETE FROM "sqlite_sequence";
INSERT INTO "sqlite_sequence" VALUES('asset',5);
INSERT INTO "sqlite_sequence" VALUES('asset_alias',1);
INSERT INTO "sqlite_sequence" VALUES('audit',1);
INSERT INTO "sqlite_sequence" VALUES('asset_event',5);
INSERT INTO "sqlite_sequence" VALUES('run',3);
INSERT INTO "sqlite_sequence" VALUES('outbox',2);
COMMIT;
