-- Put in front of every script, after its first line, and after jobs/matrices/lua/common.lua (jobs/redis/scripts.py);
-- `prefix`, `int` and `now` come from there.
-- Every key starts with the prefix; single-node Redis, so keys are made here rather than declared:
--   job:<id>              hash    the job: control fields, and JSON for its request, progress, outcome and error
--   job:<id>:events       stream  its changes, where they are more than its record tells; goes EVENTS_TTL_S after its end
--   job:<id>:findings     hash    what a benchmark has measured so far; survives attempts, goes with the job
--   job:<id>:matrices     hash    matrices in its record, packed (jobs/matrices/packed.py): operands a, b and addend (c),
--                                 '' once it succeeded, and product c
--   packed                zset    ended jobs with matrices in their record, by the time when these go
--   queued:<queue>        zset    queued jobs by publication number: the order their messages were sent in; those that
--                                 were not sent yet come last (common_fairness.lua)
--   batch:<queue>:<key>   zset    those of them that may be computed in one launch, by the same number, except usual
--                                 jobs that came into an empty queue: these are started before all others there
--   leases                zset    running jobs by the end of their lease
--   jobs:all:<owner>, and jobs:<state>:<owner> for all states but running  zset  jobs in order of creation, for listings
--   counts                hash    seq: the last number given to a job, its place in listings; waiting, failed, cancelled:
--                                 how many jobs are; number:<queue>: the last publication number; started:<queue>: the
--                                 highest of a job started, sent:<queue>: when that was sent; and what only rises:
--                                 ended:<state>, attempts_failed:<error type>, dead_lettered, and of products that
--                                 failed, by kernel asked for, failed_products:<kernel> and failed_us:<kernel>;
--                                 products:<kernel>: see common_served.lua
--                                 (jobs/ledger/totals.py);
--                                 paused: 1 while no job is to be started, paused:<queue>: none of that queue
--                                 (service/pause.py)
--   finished, finished:<owner>  zset  ended jobs by their end: see common_oldest.lua
--   dead, dead:<owner>    zset    jobs that used up their attempts, by their end
--   pinned:<owner>        zset    benchmarks that do not expire, by when they were pinned; `counts` has how many: pinned
--   idem:<digest>         hash    the job bound to an Idempotency-Key, and the request's fingerprint
--   bound:<owner>         zset    of those, the ones that do not go with a job: see common_bindings.lua
--   hold:<digest>         string  who works under that key now
--   job:<id>:dependents   zset    jobs that wait for its product, in order of creation: see common_chains.lua
--   libraries             list    of functions that were loaded, the last one first: see jobs/redis/functions.py
--   layout                string  the version of all these keys: see jobs/redis/layout.py
--   refused               zset    jobs that a worker did not understand, by the first time: see refuse.lua
--   unsettled             zset    ended jobs that still have such, by the time of the last step that saw to some
--   answers:<service>     channel jobs that ended, whole, for the service process whose callers wait for them
--   changes               channel "<id> <version> <state>" of every change, a line each
-- A script is one step in Redis and in its append-only file: after a crash all of a change is there, or none of it.
-- A call of Redis costs a script more than most of what the call does. So a script reads first, and what it writes is
-- gathered, one call for all that goes to the same key, and carried out at its end.
-- Times are microseconds of the server's clock.
local EVENTS_KEPT, EVENTS_TTL_S = 1000, 3600
local HARD_LIMIT_MARGIN_S = 10 -- as in jobs/ledger/interface.py
local ENDED = {succeeded = true, failed = true, cancelled = true}
local COUNTED = {queued = 'waiting', failed = 'failed', cancelled = 'cancelled'}

local FIELD = {a = 'a', b = 'b', c = 'addend'} -- of operands, in the hash of matrices

local leases, counts, changes_channel = prefix .. 'leases', prefix .. 'counts', prefix .. 'changes'
local packed_key, finished_key = prefix .. 'packed', prefix .. 'finished'

local cut_from, pieces, limit, soft_s, hard_s -- see `message_of`

-- What a script that queues a job is given last: how the broker's lists are called, and the message with a %s for each
-- thing that differs from job to job (jobs/queue.py).
local LISTS, MESSAGE = ARGV[#ARGV - 1], ARGV[#ARGV]

local function job_key(id)
  return prefix .. 'job:' .. id
end

local function events_key(id)
  return prefix .. 'job:' .. id .. ':events'
end

local function findings_key(id)
  return prefix .. 'job:' .. id .. ':findings'
end

local function matrices_key(id)
  return prefix .. 'job:' .. id .. ':matrices'
end

local function queued_key(queue)
  return prefix .. 'queued:' .. queue
end

local function batch_key(job)
  return prefix .. 'batch:' .. job.queue .. ':' .. job.batch
end

local function state_key(state, owner)
  return prefix .. 'jobs:' .. state .. ':' .. owner
end

-- Names of keys of an owner and of a queue, kept from the last call: putting one together costs as much as reading a
-- field.
local of_owner, of_queue = {}, {}

local function owner_names(owner)
  if of_owner.owner ~= owner then
    of_owner = {
      owner = owner, all = state_key('all', owner), queued = state_key('queued', owner),
      succeeded = state_key('succeeded', owner), finished = finished_key .. ':' .. owner, charged = 'of:' .. owner,
    }
  end
  return of_owner
end

local function queue_names(queue)
  if of_queue.queue ~= queue then
    of_queue = {
      queue = queue, queued = queued_key(queue), number = 'number:' .. queue, started = 'started:' .. queue,
      sent = 'sent:' .. queue, paused = 'paused:' .. queue,
    }
  end
  return of_queue
end

-- ---- what is to be written ----
local writes, in_order, deltas, known, owed, books, news = {}, {}, {}, {}, {}, {}, {}

-- A command of which one call takes what several would: HSET, HDEL, LPUSH, ZADD, ZREM, DEL. Nothing in a script may depend
-- on the order of two of them on one key.
local function write(command, key, ...)
  local made = writes[key]
  if not made or made[1] ~= command then -- few keys have two commands: those are made twice
    made = {command, key, ...}
    writes[key], in_order[#in_order + 1] = made, made
    return
  end
  local more, length = {...}, #made
  for i = 1, #more do
    made[length + i] = more[i]
  end
end

local function set(job, ...)
  write('HSET', job.key, ...)
end

-- Reads these counts, which spares a call where they change.
local function read_counts(...)
  local names, values = {...}, call('HMGET', counts, ...)
  for i = 1, #names do
    known[names[i]] = tonumber(values[i] or 0)
  end
  return known
end

local function count(field, delta)
  if field then
    deltas[field] = (deltas[field] or 0) + delta
  end
end

-- Bytes of matrices that an owner is charged.
local function owe(owner, bytes)
  if bytes ~= 0 then
    local of = 'of:' .. owner
    owed.all, owed[of] = (owed.all or 0) + bytes, (owed[of] or 0) + bytes
  end
end

-- The same within bounds, as `charge_within` has it. The books are read once for all jobs of a step, in which nothing may
-- change them but what was gathered.
local function owe_within(owner, bytes, max_bytes, max_owner_bytes)
  local of = 'of:' .. owner
  if not (books.all and books[of]) then
    local all, own = unpack(call('HMGET', bytes_kept, 'all', of))
    books.all, books[of] = tonumber(all or 0), tonumber(own or 0)
  end
  local kept, kept_by_owner = books.all + (owed.all or 0), books[of] + (owed[of] or 0)
  if kept + bytes > max_bytes then
    return {'full', bytes, kept}
  elseif kept_by_owner + bytes > max_owner_bytes then
    return {'owner_full', bytes, kept_by_owner}
  end
  owe(owner, bytes)
  return nil
end

local function keep_books()
  for field, bytes in pairs(owed) do
    local kept = books[field] and books[field] + bytes
    if kept and kept > 0 then
      write('HSET', bytes_kept, field, kept)
    elseif bytes ~= 0 then
      charge(field, bytes)
    end
    books[field] = kept
  end
end

local function publish(channel, message)
  local messages = news[channel]
  if messages then
    messages[#messages + 1] = message
  else
    news[channel] = {message}
  end
end

-- Carries out what was gathered, and tells of it: an answer before its caller is woken to ask for it.
local function carry_out()
  for field, delta in pairs(deltas) do
    if known[field] then
      write('HSET', counts, field, known[field] + delta)
    else
      call('HINCRBY', counts, field, delta)
    end
  end
  keep_books()
  for i = 1, #in_order do
    call(unpack(in_order[i]))
  end
  local changes = news.changes
  news.changes = nil
  for channel, messages in pairs(news) do
    call('PUBLISH', prefix .. channel, messages[2] and table.concat(messages) or messages[1])
  end
  if changes then
    call('PUBLISH', changes_channel, changes[2] and table.concat(changes, '\n') or changes[1])
  end
  writes, in_order, deltas, known, owed, news = {}, {}, {}, {}, {}, {}
end

-- ---- a job ----
-- What scripts need of it, and for claim.lua what a worker does: as in jobs/ledger/codec.py. Of a job that runs, the
-- first ENDS_BY do for its end: each field costs as much as a small command.
local READ = {
  'state', 'attempt', 'version', 'owner', 'seq', 'held', 'ttl', 'in_record', 'reply_to', 'queued', 'started', 'created',
  'a_attempt', 'b_attempt', 'waits', 'needs', 'dependents', 'cost',
  'id', 'queue', 'runs', 'timeout', 'number', 'first', 'product_bytes', 'batch', 'kind', 'request', 'trace',
}
local ENDS_BY = 18

-- Those fields, or the first so many, as strings; nil where there is no such job.
local function values_of(id, fields)
  local v = call('HMGET', job_key(id), unpack(READ, 1, fields))
  return v[1] and v or nil
end

-- The job with these values. Written out, for a table that grows field by field costs as much as the call.
local function job_with(id, v)
  return {
    values = v, key = job_key(id), id = id, state = v[1], attempt = v[2], version = v[3], owner = v[4], seq = v[5],
    held = v[6], ttl = v[7], in_record = v[8], reply_to = v[9], queued = v[10], started = v[11], created = v[12],
    a_attempt = v[13], b_attempt = v[14], waits = v[15] == '1', has_waited = v[15] == '0', needs = v[16],
    dependents = v[17], cost = v[18],
    queue = v[20], runs = v[21], timeout = v[22], number = v[23], first = v[24], product_bytes = v[25], batch = v[26],
    kind = v[27], request = v[28], trace = v[29],
  }
end

-- Usual jobs. A job is usual if it has a batch key, no third operand, and no quota but on waiting jobs; and if both operands
-- and the product are in its record; or none is, and both operands were stored for it alone; or both were stored before it.
-- In its first attempt it is queued under version 1 and runs under version 2. Scripts write usual jobs directly: gathering
-- what is written costs a third of a small job's time.
-- What stays of a usual job until its end is in one field, `unchanging`: a field that is read costs as much as a small
-- command. Lines: created, timeout, owner, batch, first, seq, held, ttl, reply_to, product_bytes, kind, trace. A later
-- version may add lines. `first` is '<queue> <number>' where the job came into an empty queue, so it is in no set of its
-- batch, else '-'. Where both operands are stored, `created` has more in its line: '+<created> <charge> <a> <b>' if that was
-- for this job alone, '&<created> <a> <b>' if it was before. Versions that do not know such jobs treat them as any other.
local function unchanging_of(created, timeout, owner, batch, first, seq, held, ttl, reply_to, product_bytes, kind, trace)
  return created .. '\n' .. timeout .. '\n' .. owner .. '\n' .. batch .. '\n' .. first .. '\n' .. seq .. '\n' .. held .. '\n'
    .. ttl .. '\n' .. reply_to .. '\n' .. product_bytes .. '\n' .. kind .. '\n' .. trace
end

local function read(id, fields)
  local v = values_of(id, fields)
  return v and job_with(id, v)
end

-- The attempt that made operand c; read only of a job whose c is the product of another, which few are.
local function c_attempt(job)
  return string.find(job.in_record, 'C', 1, true) and redis.call('HGET', job_key(job.id), 'c_attempt') or false
end

-- The job if it is this owner's ('' is anyone's), else nil.
local function read_owned(id, owner)
  local job = read(id)
  if job and (owner == '' or owner == job.owner) then
    return job
  end
  return nil
end

-- The job if this attempt runs it, else nil: the fence that stops a late worker.
local function read_running(id, attempt)
  local job = read(id)
  if job and job.state == 'running' and job.attempt == attempt then
    return job
  end
  return nil
end

-- In common_fairness.lua.
local place_of
local wait_in_backlog
local leave_window

-- What Python makes a record of: the outcome of the script, the hash, and the place in the queue (-1: in none).
local function reply(outcome, id)
  local flat = redis.call('HGETALL', job_key(id))
  local state, queue, owner, number = unpack(redis.call('HMGET', job_key(id), 'state', 'queue', 'owner', 'number'))
  if state == 'queued' and redis.call('HEXISTS', counts, 'unserved:' .. queue) == 1 then
    flat[#flat + 1], flat[#flat + 2] = 'unserved', '1'
  end
  return {outcome, flat, state == 'queued' and place_of(queue, owner, number, id) or -1}
end

local function per_owner(job, name)
  return {prefix .. name, prefix .. name .. ':' .. job.owner}
end

-- ---- its events ----
-- An event as JSON. `more` is JSON to append, such as ',"error":{…}'.
local function event_data(job, state, version, more)
  return string.format('{"state":"%s","attempt":%s,"version":%s%s}', state, job.attempt, version, more)
end

-- Whether its record tells all its events: queued, running and ended once, or less. One that waited for a product was
-- queued twice.
local function is_plain(job)
  local version = tonumber(job.version)
  return job.attempt == '1' and not job.has_waited and (version < 3 or version == 3 and ENDED[job.state] == true)
end

-- The events of such a job, each with its id and in the form of XRANGE; none of another.
local function life_of(id)
  local job, events, ms = read(id), {}, 0
  if not job or not is_plain(job) then
    return events
  end
  local finished, error = unpack(redis.call('HMGET', job_key(id), 'finished', 'error'))
  if finished and finished + EVENTS_TTL_S * 1e6 < now() then
    return events
  end
  local function tell(at, state, more)
    ms = math.max(ms, math.floor(at / 1000))
    local version = #events + 1
    events[version] = {int(ms) .. '-' .. version, {'event', state, 'data', event_data(job, state, version, more)}}
  end
  tell(job.queued, 'queued', '')
  if job.started then
    tell(job.started, 'running', '')
  end
  if ENDED[job.state] then
    tell(finished, job.state, error and ',"error":' .. error or '')
  end
  return events
end

-- Adds to the event stream. What came before is still in the hash, for nothing is written yet.
local function add_event(job, event, data)
  local events = events_key(job.id)
  if redis.call('EXISTS', events) == 0 then
    for _, past in ipairs(life_of(job.id)) do
      redis.call('XADD', events, past[1], unpack(past[2]))
    end
  end
  redis.call('XADD', events, 'MAXLEN', '~', EVENTS_KEPT, '*', 'event', event, 'data', data)
end

-- Adds to the job's event stream and publishes the change. `more` is as for `event_data`.
local function announce(job, event, more)
  if not is_plain(job) then
    add_event(job, event, event_data(job, job.state, job.version, more))
  end
  publish('changes', job.id .. ' ' .. job.version .. ' ' .. job.state)
end

-- A new job has neither listener nor past: nothing is published about it.
local function is_new(job)
  return job.values == nil
end

-- ---- its states ----
local NEXT = {['0'] = '1', ['1'] = '2', ['2'] = '3'}

-- The number after one that is mostly small: writing a number out takes as long as some commands.
local function next_of(number)
  return NEXT[number] or int(number + 1)
end

-- Changes what is listed and counted of a job by its state.
local function move(job, old, state)
  local id = job.id
  if old == 'running' then
    write('ZREM', leases, id)
  elseif old then
    write('ZREM', state_key(old, job.owner), id)
  end
  if old == 'queued' then
    write('ZREM', queued_key(job.queue), id)
    if job.batch then
      write('ZREM', batch_key(job), id)
    end
    leave_window(job)
  end
  if state ~= 'running' then
    write('ZADD', state_key(state, job.owner), job.seq, id)
  end
  count(COUNTED[old], -1)
  count(COUNTED[state], 1)
end

-- Every change of state goes through here. `more` is as for `announce`; further arguments are names and values to write.
local function enter(job, state, more, ...)
  if job.state ~= state then -- else it waited for a product, and comes into its queue now
    move(job, job.state, state)
  end
  job.state, job.version = state, next_of(job.version)
  set(job, 'state', state, 'version', job.version, ...)
  if not is_new(job) then
    announce(job, state, more)
  end
end

-- The message of a queued job, as Celery reads it: what is in MESSAGE between its places, in its order. What was made of
-- the last MESSAGE, and of the last time limit, is kept: most jobs have the same ones.
local function message_of(id, attempt, queue, timeout, number)
  if cut_from ~= MESSAGE then
    cut_from, pieces = MESSAGE, {}
    local text = string.gsub(string.gsub(MESSAGE, '%%%%', '\0'), '%%%.3f', '%%s')
    for piece in string.gmatch(text .. '%s', '(.-)%%s') do
      pieces[#pieces + 1] = string.gsub(piece, '%z', '%%')
    end
  end
  if limit ~= timeout then
    limit = timeout
    soft_s = string.format('%.3f', limit / 1e6)
    hard_s = string.format('%.3f', limit / 1e6 + HARD_LIMIT_MARGIN_S)
  end
  local p, name = pieces, id .. '.' .. attempt
  return p[1] .. id .. p[2] .. attempt .. p[3] .. name .. p[4] .. hard_s .. p[5] .. soft_s .. p[6] .. name .. p[7] .. id
    .. p[8] .. name .. p[9] .. queue .. p[10] .. name .. p[11] .. number .. p[12]
end

local function next_number(queue)
  local field = 'number:' .. queue
  local number = int((known[field] or read_counts(field)[field]) + (deltas[field] or 0) + 1)
  count(field, 1)
  return number
end

-- Gives a queued job its next number and sends its message. Both are one step, so the broker's list is in the order of
-- the numbers.
local function send(job)
  job.number = next_number(job.queue)
  write('ZADD', queued_key(job.queue), job.number, job.id)
  write('LPUSH', LISTS .. job.queue, message_of(job.id, job.attempt, job.queue, job.timeout, job.number))
  return job.number
end

local function line_up(job)
  local place = wait_in_backlog(job) or send(job)
  if job.batch and job.attempt == '1' and not job.is_first then -- what failed once is tried again alone
    write('ZADD', batch_key(job), place, job.id)
  end
end

-- `first` is the number of the earliest message of this attempt: see claim.lua.
local function enqueue(job, at, more)
  line_up(job)
  enter(job, 'queued', more, 'attempt', job.attempt, 'runs', job.runs, 'number', job.number, 'first', job.number,
    'published', at, 'queued', at)
end

-- What the matrices in a job's record take is counted among the bytes that the stores keep. `held` is what a job is
-- charged.
local function hold(job, bytes)
  local before = tonumber(job.held or 0)
  if bytes ~= before then
    owe(job.owner, bytes - before)
    set(job, 'held', bytes)
    job.held = bytes
  end
end

local function drop_matrices(job)
  redis.call('DEL', matrices_key(job.id))
  redis.call('ZREM', packed_key, job.id)
  hold(job, 0)
end

-- Lengths below this, packed once: most answers have few of them.
local LENGTHS_KEPT, lengths = 8192, {}

local function length_of(text)
  local length = #text
  local packed = lengths[length] or struct.pack('<I4', length)
  if length < LENGTHS_KEPT then
    lengths[length] = packed
  end
  return packed
end

-- What the end changed, and the product if that is in the record, for the service process whose caller waits: it knows the
-- rest. Each string comes after its length. `struct` has only the lengths to pack: what it copies it copies byte by byte.
local function answer_of(head, outcome, error, product)
  return length_of(head) .. head .. length_of(outcome) .. outcome .. length_of(error) .. error .. length_of(product) .. product
end

local function answer(job, finished, end_of)
  local c = c_attempt(job)
  local head = job.id .. ' ' .. job.state .. ' ' .. job.attempt .. ' ' .. job.version .. ' ' .. job.queued .. ' '
    .. (job.started or '') .. ' ' .. finished .. ' ' .. (job.a_attempt or '') .. ' ' .. (job.b_attempt or '')
    .. (c and ' ' .. c or '')
  publish('answers:' .. job.reply_to, answer_of(head, end_of.outcome or '', end_of.error or '', end_of.product or ''))
end

local settle_dependents, stop_waiting -- in common_chains.lua
local release_operands -- in common_needs.lua
local leave_flight -- in common_quotas.lua

-- `end_of` has the `outcome` or the `error`, and what of the `product` is in the record. Further arguments are names and
-- values to write.
local function finish(job, state, at, more, end_of, ...)
  if job.waits then
    stop_waiting(job)
  end
  end_of.operands_kept = release_operands(job, at, state == 'succeeded')
  if tonumber(job.held or 0) > 0 then
    write('ZADD', packed_key, at + job.ttl, job.id)
  end
  write('ZADD', finished_key, at, job.id)
  write('ZADD', prefix .. 'finished:' .. job.owner, at, job.id)
  leave_flight(job)
  count('ended:' .. state, 1)
  if state == 'failed' and job.kind == 'matmul' then
    local asked = redis.call('HGET', job_key(job.id), 'asked')
    count('failed_products:' .. asked, 1)
    count('failed_us:' .. asked, math.max(0, at - job.created))
  end
  enter(job, state, more, 'finished', at, ...)
  if job.reply_to then
    answer(job, int(at), end_of)
  end
  if not is_plain(job) then
    -- A stream that may grow holds 4 KB in reserve; its copy holds what is in it.
    local events = events_key(job.id)
    redis.call('COPY', events, events .. ':copy')
    redis.call('RENAME', events .. ':copy', events)
    redis.call('EXPIRE', events, EVENTS_TTL_S)
  end
  if job.dependents then
    settle_dependents(job, at)
  end
end

-- A running job with a run left goes back into its queue. Without one it fails, and is a dead letter if `dead`.
local function retry_or_fail(job, at, error, error_type, max_attempts, dead)
  local more = ',"error":' .. error
  count('attempts_failed:' .. error_type, 1)
  if tonumber(job.runs) < tonumber(max_attempts) then
    write('HDEL', job_key(job.id), 'progress')
    job.attempt = int(job.attempt + 1)
    enqueue(job, at, more)
    return
  end
  finish(job, 'failed', at, more, {error = error}, 'error', error, 'error_type', error_type)
  if dead then
    count('dead_lettered', 1)
    for _, key in ipairs(per_owner(job, 'dead')) do
      write('ZADD', key, int(at), job.id)
    end
  end
end

-- Removes every trace of a job, but for its queue: it must have ended.
local function forget(job)
  local id, digest = job.id, redis.call('HGET', job_key(job.id), 'idem')
  local bound = digest and prefix .. 'idem:' .. digest
  if bound and redis.call('HGET', bound, 'job') == id then
    redis.call('DEL', bound)
  end
  if tonumber(job.held or 0) > 0 then
    owe(job.owner, -job.held)
    write('ZREM', packed_key, id)
  end
  redis.call('DEL', job_key(id), events_key(id), findings_key(id), matrices_key(id))
  write('ZREM', state_key('all', job.owner), id)
  write('ZREM', state_key(job.state, job.owner), id)
  for _, name in ipairs(job.state == 'failed' and {'finished', 'dead'} or {'finished'}) do
    for _, key in ipairs(per_owner(job, name)) do
      write('ZREM', key, id)
    end
  end
  count(COUNTED[job.state], -1)
  if job.kind == 'benchmark' and redis.call('ZREM', prefix .. 'pinned:' .. job.owner, id) == 1 then
    count('pinned', -1)
  end
end
