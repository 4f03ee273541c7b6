#!lua flags=allow-oom
-- queued → running, for the message of this very attempt; and for up to `max_jobs` - 1 other jobs that may be computed
-- in the same launch. Of those that may be under way beside it, for as many as make `max_beside` with it, and besides
-- those `max_light` that are light: no matrix of theirs has more than `light_extent` rows or columns. Their messages
-- are taken out of the broker's list. A worker whose first try timed out on the way back asks again: it gets the same
-- jobs, as far as they are still its own.
-- With `taken`, the list into which the worker had a message moved in the step before, it is for the first attempt that
-- this message names; false where that is to be claimed in the usual way, as a job that may take longer than `limit`.
local NEAR = 1024 -- numbers, so that a message is not looked for far from the list's end
local MAX_LEFT = 100 -- messages of a worker that died again and again between both steps
-- In a message as jobs/queue.py has it; what is looked for from its beginning on is found without looking at all of it.
local FIRST_IN_BODY = '^{"body": "%[%[\\"([%w_-]+)\\", (%d+)%]'
-- `unchanging` of an open server's job: created, timeout, batch and first.
local OPEN_ONE = '^[+&]?(%d+)[^\n]*\n(%d+)\n' .. OPEN .. '\n([^\n]+)\n([^\n]+)'
local DIGITS = 48 -- where it begins with a byte below these, which is + or &, both operands are stored
local ELSEWHERE_US = 300 * 1e6 -- so long a job waits for a worker that did not make its product wrong

-- The fields that were read, when it starts, the operands, the attempt that made c if another job did, and the progress
-- of one that runs already.
local function claimed_one(job, started, progress)
  local operands = {false, false}
  if string.find(job.in_record, 'c', 1, true) then
    operands = redis.call('HMGET', matrices_key(job.id), 'a', 'b', FIELD.c)
  elseif job.in_record ~= '' then
    operands = redis.call('HMGET', matrices_key(job.id), 'a', 'b')
  end
  return {job.values, job.version, started, operands, c_attempt(job), progress}
end

-- Whether its product came out wrong on this worker, and another one may make it: of those that take from the queue the
-- others than the last one that made it wrong, or those that never did.
local function is_for_others(job, worker, at)
  local wrong_on = job.attempt ~= '1' and redis.call('HGET', job_key(job.id), 'wrong_on')
  local waited = at - job.queued
  if not wrong_on or waited > ELSEWHERE_US or waited < 0 then -- less than nothing where the clock was set back
    return false
  end
  local tried, is_here, last = 0, false, nil
  for each in string.gmatch(wrong_on, '%S+') do
    tried, is_here, last = tried + 1, is_here or each == worker, each
  end
  local workers = known['workers:' .. job.queue]
  return is_here and (workers > tried or (last == worker and workers > 1))
end

local function start(job, worker, at, ends, others)
  write('ZADD', leases, ends, job.id)
  enter(job, 'running', '', 'runs', next_of(job.runs), 'started', at, 'seen', at, 'worker', worker, 'others', others)
  return claimed_one(job, at)
end

local function claimed_again(job)
  return claimed_one(job, job.started, redis.call('HGET', job_key(job.id), 'progress'))
end

local function is_its_own(job, worker)
  return job and job.state == 'running' and redis.call('HGET', job_key(job.id), 'worker') == worker
end

local function is_light(request, light_extent)
  for shape in string.gmatch(request, '"shape":%[([%d,]*)%]') do
    local rows, columns = string.match(shape, '^(%d+),(%d+)$')
    if not rows or tonumber(rows) > light_extent or tonumber(columns) > light_extent then
      return false
    end
  end
  return true
end

-- Counts jobs that are to be under way beside one another, by their requests: whether one more of them may be.
local function counter_of(max_beside, max_light, light_extent)
  local heavy, light, last, last_is_light = 0, 0, nil, nil -- jobs of a burst mostly have one request
  return function(request)
    if request ~= last then
      last, last_is_light = request, max_light > 0 and is_light(request, light_extent)
    end
    if last_is_light then
      light = light + 1
    else
      heavy = heavy + 1
    end
    return light <= max_light and heavy <= max_beside
  end
end

-- Those that may be under way beside the job, oldest first, up to the first one too many.
local function beside_it(job, max_beside, max_light, light_extent)
  local others, is_taken = {}, counter_of(max_beside, max_light, light_extent)
  is_taken(job.request)
  for _, id in ipairs(companions(job, max_beside + max_light - 1, math.abs(job.number) + NEAR)) do
    local other = read(id)
    if not other or not is_taken(other.request) then
      break
    end
    others[#others + 1] = other
  end
  return others
end

local function in_its_launch(job, max_jobs)
  local others = {}
  for _, id in ipairs(companions(job, max_jobs - 1, math.abs(job.number) + NEAR)) do
    others[#others + 1] = read(id)
  end
  return others
end

-- The job that the message is for; nil where it is for no first attempt. One that is left in the list, as after a crash
-- between both steps, goes: the sweeper sends it again.
local function job_of_message(taken)
  local messages = call('RPOP', taken, MAX_LEFT)
  local message = messages and messages[1] or ''
  local id, attempt = string.match(message, FIRST_IN_BODY)
  if not id then
    id, attempt = string.match(message, '"correlation_id": "([%w_-]+)%.(%d+)"')
  end
  return attempt == '1' and id or nil
end

-- What is read of a usual job (common.lua) that waits for its first attempt in an open server's queue; nil for another.
local function usual_job(id)
  local state, version, number, first, queue, request, unchanging =
    unpack(call('HMGET', job_key(id), 'state', 'version', 'number', 'first', 'queue', 'request', 'unchanging'))
  if not unchanging or state ~= 'queued' or version ~= '1' then
    return nil
  end
  local created, timeout, batch, came_first = string.match(unchanging, OPEN_ONE) -- nil of another owner's job
  return created, timeout, batch, came_first, number, first, queue, request, unchanging
end

local function start_usual(id, worker, at, others)
  call('HSET', job_key(id), 'state', 'running', 'version', '2', 'runs', '1', 'started', at, 'seen', at, 'worker', worker,
    'others', others)
end

-- What Python reads of a usual job.
local function claimed_usual(id, queue, number, at, unchanging, request)
  local a, b = false, false
  if string.byte(unchanging) >= DIGITS then
    a, b = unpack(call('HMGET', matrices_key(id), 'a', 'b'))
  end
  return {id, queue, number, at, unchanging, request, a, b}
end

local function count_started(queue, first, created, started, waiting)
  if tonumber(first) > tonumber(started or 0) then
    local names = queue_names(queue)
    call('HSET', counts, names.started, first, names.sent, created, 'waiting', waiting)
  else
    call('HSET', counts, 'waiting', waiting)
  end
end

-- Claims the other jobs of the leader's launch; with `is_taken`, those that may be under way beside it. Returns their ids,
-- what Python reads of them, and their number. Writes nothing and returns nil if one of them is not usual.
local function claim_others(leader, number, queue, batch, max_jobs, worker, at, ends, is_taken)
  local job, ids, jobs = {id = leader, owner = OPEN, queue = queue, batch = batch}, {}, {}
  local found = companions(job, max_jobs, math.abs(number) + NEAR)
  for i = 1, #found do
    local _, timeout, its_batch, _, its_number, _, its_queue, request, unchanging = usual_job(found[i])
    if its_batch ~= batch or its_queue ~= queue then
      return nil
    elseif is_taken and not is_taken(request) then
      break
    end
    ids[i], jobs[i] = found[i], {timeout, its_number, request, unchanging}
  end
  if #ids == 0 then
    return '', {false}, 0, ''
  end
  local leased, changes, claimed = {false, false}, {false}, {false} -- a table that has its size at once is cheaper
  for i = 1, #ids do
    local id, timeout, its_number, request, unchanging = ids[i], unpack(jobs[i])
    leased[2 * i - 1], leased[2 * i], changes[i] = ends, id, '\n' .. id .. ' 2 running'
    claimed[i + 1] = claimed_usual(id, queue, its_number, at, unchanging, request)
    start_usual(id, worker, at, '')
    call('LREM', LISTS .. queue, -1, message_of(id, '1', queue, timeout, its_number))
  end
  call('ZADD', leases, unpack(leased))
  call('ZREM', state_key('queued', OPEN), unpack(ids))
  call('ZREM', queued_key(queue), unpack(ids))
  call('ZREM', batch_key({queue = queue, batch = batch}), unpack(ids))
  return table.concat(ids, ' '), claimed, #ids, table.concat(changes)
end

-- `main` for usual jobs. Writes nothing and returns nil if one of them is not usual.
local function claim_usual(id, limit, worker, lease, max_jobs, max_beside, beside, max_light, light_extent)
  local created, timeout, batch, came_first, number, first, queue, request, unchanging = usual_job(id)
  if not created or (limit and tonumber(timeout) > limit) then
    return nil
  end
  local names = queue_names(queue)
  local started, waiting, paused, is_queue_paused =
    unpack(call('HMGET', counts, names.started, 'waiting', 'paused', names.paused))
  waiting = tonumber(waiting or 0)
  if paused == '1' or is_queue_paused == '1' then
    return nil
  end
  local at, is_taken = now_in_full(), nil
  local ends, others, claimed, more, changes = at + lease, '', {false}, 0, ''
  if batch == beside and waiting > 1 then
    max_jobs = max_beside + max_light
    is_taken = counter_of(tonumber(max_beside), tonumber(max_light), tonumber(light_extent))
    is_taken(request)
  end
  if waiting > 1 and tonumber(max_jobs) > 1 then
    others, claimed, more, changes = claim_others(id, number, queue, batch, max_jobs - 1, worker, at, ends, is_taken)
    if not others then
      return nil
    end
  end
  claimed[1] = claimed_usual(id, queue, number, at, unchanging, request)
  start_usual(id, worker, at, others)
  call('ZADD', leases, ends, id)
  call('ZREM', owner_names(OPEN).queued, id)
  call('ZREM', names.queued, id)
  if came_first == '-' or came_first ~= queue .. ' ' .. first then -- one that was moved is in a set
    call('ZREM', batch_key({queue = queue, batch = batch}), id)
  end
  count_started(queue, first, created, started, waiting - 1 - more)
  call('PUBLISH', changes_channel, id .. ' 2 running' .. changes)
  return claimed
end

local function main(ARGV)
  local id, attempt, worker, lease, max_jobs, max_beside, beside, max_light, light_extent, taken, limit =
    unpack(ARGV, 2, 12)
  if taken ~= '' then
    id, attempt, limit = job_of_message(taken), '1', tonumber(limit)
    if not id then
      return false
    end
  else
    limit = nil
  end
  local usual = attempt == '1' and claim_usual(id, limit, unpack(ARGV, 4, 10))
  if usual then
    return usual
  end
  gather()
  local job = read(id)
  if limit and not (job and job.attempt == '1' and job.state == 'queued' and tonumber(job.timeout) <= limit) then
    return false
  end
  if is_its_own(job, worker) and job.attempt == attempt then
    local claimed = {claimed_again(job)}
    for other_id in string.gmatch(redis.call('HGET', job_key(id), 'others'), '%S+') do
      local other = read(other_id)
      if is_its_own(other, worker) and other.attempt == '1' then
        claimed[#claimed + 1] = claimed_again(other)
      end
    end
    return claimed
  elseif not job or job.state ~= 'queued' or job.attempt ~= attempt or job.waits then
    return {}
  end
  local at, started, paused = now(), 'started:' .. job.queue, 'paused:' .. job.queue
  read_counts(started, 'waiting', 'paused', paused, 'number:' .. job.queue, 'workers:' .. job.queue)
  if known.paused == 1 or known[paused] == 1 then
    return {} -- once the pause is over, the sweeper finds that its message is gone
  end
  if is_for_others(job, worker, at) then
    set(job, 'number', send(job), 'published', int(at)) -- behind all others, while this worker still holds its message
    carry_out()
    return {}
  end
  -- A message that was sent twice may be the first or the second. Counting the first never makes messages look lost
  -- that still wait between the two.
  if tonumber(job.first) > known[started] then
    write('HSET', counts, started, job.first, 'sent:' .. job.queue, first_sent(job))
  end
  local others, ids = {}, {}
  if job.batch == beside then
    max_jobs = max_beside + max_light
  end
  if job.batch and job.attempt == '1' and tonumber(max_jobs) > 1 and known.waiting > 1 then
    if job.batch == beside then
      others = beside_it(job, tonumber(max_beside), tonumber(max_light), tonumber(light_extent))
    else
      others = in_its_launch(job, tonumber(max_jobs))
    end
  end
  for i, other in ipairs(others) do
    ids[i] = other.id
  end
  local ends = at + lease
  local claimed = {start(job, worker, at, ends, table.concat(ids, ' '))}
  for _, other in ipairs(others) do
    if tonumber(other.number) > 0 then
      redis.call('LREM', LISTS .. other.queue, -1, message_of(other.id, '1', other.queue, other.timeout, other.number))
    end
    claimed[#claimed + 1] = start(other, worker, at, ends, '')
  end
  send_following(at)
  carry_out()
  return claimed
end

return main(ARGV)
