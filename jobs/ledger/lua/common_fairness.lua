-- Put after common_chains.lua: whose job is next. An owner has as many messages in a queue's list as workers take from
-- it, at least one. Its other jobs wait in its backlog. When a job of its with a message leaves the queue, its next job
-- is sent in the same step, behind the messages of others: owners go round robin. An open server has one owner, whose
-- messages are all sent at once.
--   backlog:<queue>:<owner>  zset  queued jobs without a message, in order; their `number` is minus their place there
--   window:<queue>           hash  by owner, how many queued jobs have a message (sent:<owner>) and have none
--                                  (unsent:<owner>)
-- In `counts`, workers:<queue> is how many live workers take from a queue, as the sweeper last saw.
local OPEN = 'anonymous' -- as in jobs/models.py
local UNSENT = 2 ^ 52 -- in queued:<queue> such jobs come after those with a message, by this much
local MAX_COUNTED = 64 -- owners, so that a place in the queue is told in bounded time
local left, left_in_order = {}, {}

local function backlog_key(queue, owner)
  return prefix .. 'backlog:' .. queue .. ':' .. owner
end

local function window_key(queue)
  return prefix .. 'window:' .. queue
end

-- How many queued jobs of the owner have a message, and have none.
local function read_window(queue, owner)
  local sent, unsent = unpack(redis.call('HMGET', window_key(queue), 'sent:' .. owner, 'unsent:' .. owner))
  return tonumber(sent or 0), tonumber(unsent or 0)
end

local function set_window(queue, owner, sent, unsent)
  if sent > 0 or unsent > 0 then
    redis.call('HSET', window_key(queue), 'sent:' .. owner, int(sent), 'unsent:' .. owner, int(unsent))
  else
    redis.call('HDEL', window_key(queue), 'sent:' .. owner, 'unsent:' .. owner)
  end
end

-- How many messages an owner may have in the list.
local function window_of(queue)
  local workers = 'workers:' .. queue
  return math.max(1, known[workers] or read_counts(workers, 'number:' .. queue)[workers])
end

-- Puts a job into its owner's backlog, where the owner has its share of messages: its number then, else nil.
wait_in_backlog = function(job)
  if job.owner == OPEN then
    return nil
  end
  local sent, unsent = read_window(job.queue, job.owner)
  if sent == 0 or (unsent == 0 and sent < window_of(job.queue)) then
    set_window(job.queue, job.owner, sent + 1, unsent)
    return nil
  end
  local place = next_number(job.queue)
  job.number = '-' .. place
  write('ZADD', queued_key(job.queue), int(UNSENT + place), job.id)
  redis.call('ZADD', backlog_key(job.queue, job.owner), place, job.id)
  set_window(job.queue, job.owner, sent, unsent + 1)
  return job.number
end

-- A job leaves its queue: see `send_following`.
leave_window = function(job)
  local number = tonumber(job.number)
  if job.owner == OPEN or number == 0 then
    return
  end
  local name = job.queue .. ' ' .. job.owner
  local of = left[name]
  if not of then
    of = {queue = job.queue, owner = job.owner, sent = 0, unsent = {}}
    left[name], left_in_order[#left_in_order + 1] = of, of
  end
  if number > 0 then
    of.sent = of.sent + 1
  else
    of.unsent[#of.unsent + 1] = job.id
  end
end

-- Sends the owner's next jobs, at most so many. How many it sent, and how many left the backlog.
local function send_next(queue, owner, most, at)
  local backlog, sent, gone = backlog_key(queue, owner), 0, 0
  while sent < most do
    local ids = redis.call('ZRANGE', backlog, 0, most - sent - 1)
    if #ids == 0 then
      break
    end
    redis.call('ZREM', backlog, unpack(ids))
    gone = gone + #ids
    for _, id in ipairs(ids) do
      local state, attempt, timeout, number =
        unpack(redis.call('HMGET', job_key(id), 'state', 'attempt', 'timeout', 'number'))
      if state == 'queued' and tonumber(number) < 0 then -- else the scripts of another version took it
        local job = {id = id, queue = queue, attempt = attempt, timeout = timeout}
        send(job)
        set(job, 'number', job.number, 'first', job.number, 'published', at)
        sent = sent + 1
      end
    end
  end
  return sent, gone
end

-- After jobs left: the next ones of their owners are sent, in the order in which these left.
local function send_following(at)
  for _, of in ipairs(left_in_order) do
    local sent, unsent = read_window(of.queue, of.owner)
    sent, unsent = math.max(0, sent - of.sent), math.max(0, unsent - #of.unsent)
    if #of.unsent > 0 then
      redis.call('ZREM', backlog_key(of.queue, of.owner), unpack(of.unsent))
    end
    if unsent > 0 then
      local more, gone = send_next(of.queue, of.owner, window_of(of.queue) - sent, at)
      sent, unsent = sent + more, unsent - gone
    end
    set_window(of.queue, of.owner, sent, unsent)
  end
end

-- Takes the message of a job that is called off out of the list, which is short: it would hold up those of others.
local function take_out(job)
  if job.owner ~= OPEN and job.state == 'queued' and tonumber(job.number) > 0 then
    redis.call('LREM', LISTS .. job.queue, -1, message_of(job))
  end
end

-- Other jobs for the launch of this one, at most so many: its owner's next ones first, for it is that one's place in the
-- round, then the oldest of all, up to this number.
local function companions(job, most, near)
  local found, taken, batch = {}, {[job.id] = true}, batch_key(job)
  local function take(id)
    if not taken[id] and #found < most then
      found[#found + 1], taken[id] = id, true
    end
  end
  if job.owner ~= OPEN then
    local own = redis.call('ZRANGE', backlog_key(job.queue, job.owner), 0, most - 1)
    local fits = #own > 0 and redis.call('ZMSCORE', batch, unpack(own))
    for i, id in ipairs(own) do
      if fits[i] then
        take(id)
      end
    end
  end
  for _, id in ipairs(redis.call('ZRANGEBYSCORE', batch, '-inf', near, 'LIMIT', 0, most + #found + 1)) do
    take(id)
  end
  return found
end

-- How many queued jobs come before this one if nobody sends more, -1 where it is not queued. For a job in a backlog:
-- messages that are sent, and of each owner as many others as of its own.
place_of = function(queue, owner, number, id)
  local before = tonumber(number) < 0 and redis.call('ZRANK', backlog_key(queue, owner), id)
  if not before then
    return redis.call('ZRANK', queued_key(queue), id) or -1
  end
  local place = redis.call('ZCOUNT', queued_key(queue), '-inf', '(' .. int(UNSENT)) + before
  local owners = redis.call('HLEN', window_key(queue)) / 2
  if owners > MAX_COUNTED then
    return math.min(place + before * (owners - 1), redis.call('ZCARD', queued_key(queue)) - 1)
  end
  local window = redis.call('HGETALL', window_key(queue))
  for i = 1, #window, 2 do
    local other = string.match(window[i], '^unsent:(.*)$')
    if other and other ~= owner then
      place = place + math.min(window[i + 1], before)
    end
  end
  return place
end
